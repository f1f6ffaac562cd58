use super::{Evidence, Policy};

/// Halves the size after each failure: the default, and hard to beat without any measurements.
///
/// From `initial`, at most log2(`initial`) attempts fail before a single item is left.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{Halve, NoCache, classify::OutOfMemory, execute};
///
/// let form = execute::with::<NoCache>().policy(Halve); // the default
/// let size = form.batch(16, |size| if size > 10 { Err(OutOfMemory::new(None)) } else { Ok(size) })?;
/// assert_eq!(size, 8);
/// # Ok::<(), OutOfMemory>(())
/// ```
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
