use super::figures::{number, whole};
use super::{Evidence, Policy};

/// Multiplies the size by a factor after each failure.
///
/// A factor near 1 ends closer to the best size than [`Halve`](crate::Halve) and causes more failures on the way: 0.9
/// ends within 10 % of the best size after up to seven times as many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decay {
    factor: f64,
}

impl Decay {
    /// Returns a policy that multiplies by `factor`.
    ///
    /// # Panics
    /// When `factor` is not greater than 0 and less than 1.
    pub fn new(factor: f64) -> Self {
        assert!(
            factor > 0.0 && factor < 1.0,
            "decay factor {factor}: must be greater than 0 and less than 1"
        );
        Self { factor }
    }
}

impl Policy for Decay {
    fn shrink(&self, evidence: &Evidence) -> usize {
        // The product of a huge size may round up to the size itself.
        whole(number(evidence.size) * self.factor).min(evidence.size.saturating_sub(1))
    }

    #[inline]
    fn is_fixed(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Decay;

    #[test]
    fn what_is_no_part_of_a_size_is_refused() {
        for (factor, shown) in [(1.0, "1"), (0.0, "0"), (-0.5, "-0.5"), (f64::NAN, "NaN")] {
            let refused = std::panic::catch_unwind(|| Decay::new(factor)).unwrap_err();
            let expected = format!("decay factor {shown}: must be greater than 0 and less than 1");
            assert_eq!(refused.downcast_ref::<String>(), Some(&expected));
        }
    }
}
