//! Bytes for people.

use std::fmt;

/// Bytes as memlab writes them: `0.00B`, `1000.00B`, `1.50K`, `4.00M`. Units are powers of 1024.
///
/// ```
/// use toma_trace::Size;
///
/// assert_eq!(Size::of(3 << 19).to_string(), "1.50M");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub i128);

impl Size {
    /// Returns the size of so many bytes.
    #[must_use]
    pub fn of(bytes: u64) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        #[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
        let mut shown = self.0.unsigned_abs() as f64;
        let mut units = ["B", "K", "M", "G", "T", "P", "E"].into_iter().peekable();
        while shown >= 1024.0 && units.len() > 1 {
            shown /= 1024.0;
            units.next();
        }
        f.pad(&format!("{sign}{shown:.2}{}", units.next().unwrap_or("E")))
    }
}

#[cfg(test)]
mod tests {
    use super::Size;

    #[test]
    fn sizes_are_those_of_memlab() {
        for (bytes, text) in [
            (0, "0.00B"),
            (1000, "1000.00B"),
            (1536, "1.50K"),
            (40_400, "39.45K"),
            (4 << 20, "4.00M"),
            (-2048, "-2.00K"),
            (1_i128 << 64, "16.00E"),
        ] {
            assert_eq!(Size(bytes).to_string(), text);
        }
        assert_eq!(format!("{:>8}|{:<8}|", Size(1), Size(1)), "   1.00B|1.00B   |");
    }
}
