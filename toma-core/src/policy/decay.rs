use super::figures::{number, whole};
use super::{Evidence, Policy};

/// Multiplies the size by a factor after each failure.
///
/// A factor near 1 ends closer to the best size than [`Halve`](crate::Halve) and causes more failures on the way: 0.9
/// ends within 10 % of the best size after up to seven times as many.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{Decay, NoCache, classify::OutOfMemory, execute};
///
/// let form = execute::with::<NoCache>().policy(Decay::new(0.75));
/// let size = form.batch(16, |size| if size > 10 { Err(OutOfMemory::new(None)) } else { Ok(size) })?;
/// assert_eq!(size, 9); // 16, 12, 9; halves would end at 8
/// # Ok::<(), OutOfMemory>(())
/// ```
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
        whole(number(evidence.size) * self.factor)
    }

    #[inline]
    fn is_fixed(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{Decay, Evidence, Policy as _};

    /// The largest factor takes at least half a unit in the last place, which is more than a size is rounded up by.
    #[test]
    fn sizes_that_are_rounded_shrink_with_the_largest_factor() {
        let decay = Decay::new(1.0 - f64::EPSILON / 2.0);
        for power in 0..64 {
            for size in ((1_usize << power).saturating_sub(5000)..).take(10_000).filter(|&size| size > 0) {
                assert!(decay.shrink(&Evidence::new(size)) < size, "{size}");
            }
        }
    }

    #[test]
    fn a_factor_that_is_no_part_of_a_size_is_refused() {
        for (factor, shown) in [(1.0, "1"), (0.0, "0"), (-0.5, "-0.5"), (f64::NAN, "NaN")] {
            let refused = std::panic::catch_unwind(|| Decay::new(factor)).unwrap_err();
            let expected = format!("decay factor {shown}: must be greater than 0 and less than 1");
            assert_eq!(refused.downcast_ref::<String>(), Some(&expected));
        }
    }
}
