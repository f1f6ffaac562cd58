//! Text for people: lines on standard error, bytes and counts in words.

use std::io::{self, Write};

/// Prints a line on standard error. A closed stream must not stop the work, as it would with `eprintln!`.
pub fn print(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Formats `bytes` for people: `1.5 GiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let thousands = (bytes.max(1).ilog2() as usize / 10).min(UNITS.len() - 1);
    if thousands == 0 {
        return format!("{bytes} bytes");
    }
    #[expect(clippy::cast_precision_loss, reason = "one digit after the point is shown")]
    let value = bytes as f64 / (1_u64 << (10 * thousands)) as f64;
    format!("{value:.1} {}", UNITS[thousands])
}

/// Formats a count: `3 items`, `1 item`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn bytes_are_readable() {
        let shown = [0, 1023, 1024, 1 << 20, 3 << 29].map(bytes);
        assert_eq!(shown, ["0 bytes", "1023 bytes", "1.0 KiB", "1.0 MiB", "1.5 GiB"]);
        assert_eq!(bytes(u64::MAX), "16384.0 PiB");
    }
}
