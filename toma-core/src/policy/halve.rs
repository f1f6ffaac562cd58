use super::{Evidence, Policy};

/// Halves the size after each failure: the default, and hard to beat without any measurements.
///
/// From `initial`, at most log2(`initial`) attempts fail before a single item is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Halve;

impl Policy for Halve {
    #[inline]
    fn shrink(&self, evidence: &Evidence) -> usize {
        evidence.size / 2
    }

    #[inline]
    fn is_fixed(&self) -> bool {
        true
    }
}
