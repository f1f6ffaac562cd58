//! From evidence to a hint: what another run has learned is used with head-room.
//!
//! Another run had other neighbors, another allocator state and other inputs. A size at the very edge
//! of what fitted there is a failure here, and a failure costs more than a slightly smaller size.

use crate::cache::Remembered;
use crate::policy::Bounds;

/// The part of the smallest failure that stays free.
const HEAD_ROOM: usize = 16;

/// The size to start with: at least 1/16 below the smallest size known to fail.
///
/// A size that was found by halving has that head-room already and stays as it is.
pub(super) fn with_head_room(known: Remembered) -> Remembered {
    let Bounds { largest_success, smallest_failure } = known.bounds;
    let below = smallest_failure.map_or(usize::MAX, |failed| failed - failed.div_ceil(HEAD_ROOM));
    let settled = known.settled.min(below).max(1);
    let bounds = Bounds { largest_success: largest_success.map(|size| size.min(settled)), smallest_failure };
    Remembered { settled, bounds, free_bytes: None, ..known }
}

/// Whether a program that starts with `after` instead of `before` does something else worth
/// mentioning: by more than the head-room that every hint has, or knowing more sizes by measurement.
pub(super) fn is_news(before: &Remembered, after: &Remembered) -> bool {
    differs(Some(before.settled), Some(after.settled))
        || differs(before.bounds.largest_success, after.bounds.largest_success)
        || differs(before.bounds.smallest_failure, after.bounds.smallest_failure)
        || measured_sizes(before) < measured_sizes(after)
}

fn measured_sizes(known: &Remembered) -> usize {
    known.measurements.as_ref().map_or(0, |measurements| measurements.samples.iter().count())
}

fn differs(before: Option<usize>, after: Option<usize>) -> bool {
    match (before, after) {
        (Some(before), Some(after)) => before.abs_diff(after) > before.max(after) / HEAD_ROOM,
        (before, after) => before != after,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{is_news, with_head_room};
    use crate::cache::Remembered;
    use crate::policy::{Bounds, Measurements, Sample};

    fn known(settled: usize, largest_success: Option<usize>, smallest_failure: Option<usize>) -> Remembered {
        Remembered { bounds: Bounds { largest_success, smallest_failure }, ..Remembered::new(settled) }
    }

    #[test]
    fn a_size_at_the_edge_steps_back() {
        let hint = |settled, success, failure| {
            let Remembered { settled, bounds, .. } = with_head_room(known(settled, success, failure));
            (settled, bounds.largest_success, bounds.smallest_failure)
        };
        assert_eq!(hint(99, Some(99), Some(100)), (93, Some(93), Some(100)));
        assert_eq!(hint(64, Some(64), Some(128)), (64, Some(64), Some(128)));
        assert_eq!(hint(1, Some(1), Some(2)), (1, Some(1), Some(2)));
        assert_eq!(hint(1, None, Some(1)), (1, None, Some(1)));
        assert_eq!(hint(64, None, None), (64, None, None));
        assert_eq!(hint(usize::MAX, None, None), (usize::MAX, None, None));
    }

    #[test]
    fn news_is_what_exceeds_the_head_room() {
        let base = known(64, Some(64), Some(128));
        assert!(!is_news(&base, &base));
        assert!(!is_news(&base, &known(67, Some(64), Some(128))));
        assert!(is_news(&base, &known(70, Some(64), Some(128))));
        assert!(is_news(&base, &known(58, Some(64), Some(128))));
        assert!(is_news(&base, &known(64, None, Some(128))));
        assert!(is_news(&base, &known(64, Some(64), Some(100))));
        let measured = |sizes: &[usize]| {
            let samples = sizes.iter().map(|&size| Sample::new(size)).collect();
            let measurements = Some(Arc::new(Measurements { samples, ..Measurements::default() }));
            Remembered { measurements, ..base.clone() }
        };
        assert!(is_news(&base, &measured(&[8])));
        assert!(is_news(&measured(&[8]), &measured(&[8, 64])));
        assert!(!is_news(&measured(&[8]), &measured(&[9])));
        assert!(!is_news(&measured(&[8]), &base));
    }
}
