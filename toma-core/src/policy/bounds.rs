/// The largest size known to work and the smallest known to fail, in items or in
/// [cost units](crate::execute::With::by_cost).
///
/// Memory need not be monotone in size: a convolution may fail at 16 and run at 32. So neither bound is
/// proof, and a newer observation overrides an older one that contradicts it.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::policy::Bounds;
///
/// let mut bounds = Bounds::default();
/// bounds.failed(512);
/// bounds.succeeded(256);
/// assert_eq!((bounds.largest_success, bounds.smallest_failure), (Some(256), Some(512)));
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The largest size that succeeded.
    pub largest_success: Option<usize>,
    /// The smallest size that ran out of memory.
    pub smallest_failure: Option<usize>,
}

impl Bounds {
    /// Records that an attempt of this size succeeded.
    #[inline]
    pub fn succeeded(&mut self, size: usize) {
        if self.largest_success.is_none_or(|largest| largest < size) {
            self.largest_success = Some(size);
        }
        if self.smallest_failure.is_some_and(|failed| failed <= size) {
            self.smallest_failure = None;
        }
    }

    /// Returns the largest success below `size`, or half of `size` if there is none.
    pub(super) fn below(self, size: usize) -> usize {
        self.largest_success.filter(|&works| works < size).unwrap_or(size / 2)
    }

    /// Records that an attempt of this size ran out of memory.
    pub fn failed(&mut self, size: usize) {
        self.smallest_failure = Some(self.smallest_failure.map_or(size, |failed| failed.min(size)));
        self.largest_success = self.largest_success.filter(|&succeeded| succeeded < size);
    }
}

#[cfg(test)]
mod tests {
    use super::Bounds;

    #[test]
    fn the_newer_observation_wins() {
        let mut bounds = Bounds::default();
        bounds.failed(16);
        bounds.succeeded(32);
        assert_eq!(bounds, Bounds { largest_success: Some(32), smallest_failure: None });
        bounds.failed(32);
        assert_eq!(bounds, Bounds { largest_success: None, smallest_failure: Some(32) });
    }

    #[test]
    fn bounds_only_tighten_while_consistent() {
        let mut bounds = Bounds::default();
        for size in [64, 32] {
            bounds.failed(size);
        }
        for size in [8, 16, 12] {
            bounds.succeeded(size);
        }
        assert_eq!(bounds, Bounds { largest_success: Some(16), smallest_failure: Some(32) });
    }
}
