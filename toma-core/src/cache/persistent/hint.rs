//! From evidence to a hint: what another run has learned is used with head-room.
//!
//! Another run had other neighbors, another allocator state and other inputs. A size at the very edge
//! of what fitted there is a failure here, and a failure costs more than a slightly smaller size.

use crate::cache::Remembered;
use crate::policy::Bounds;

/// The part of the smallest failure that stays free.
const HEAD_ROOM: usize = 16;

/// The size to start with on the same memory: at least 1/16 below the smallest size known to fail.
///
/// A size that was found by halving has that head-room already and stays as it is.
pub(super) fn on_same_memory(known: Remembered) -> Remembered {
    let Bounds { largest_success, smallest_failure } = known.bounds;
    let below = smallest_failure.map_or(usize::MAX, |failed| failed - failed.div_ceil(HEAD_ROOM));
    let settled = known.settled.min(below).max(1);
    let bounds = Bounds { largest_success: largest_success.map(|size| size.min(settled)), smallest_failure };
    Remembered { settled, bounds, free_bytes: None, ..known }
}

/// The size to start with on a memory of `to` bytes in all, from what is known of one of `from`.
///
/// In proportion, and an eighth less, because nobody knows what part of the memory the size does not
/// change. What worked with less memory works, and what failed with more fails.
pub(super) fn on_other_memory(known: Remembered, from: u64, to: u64) -> Remembered {
    let known = on_same_memory(known);
    let in_proportion = known.settled as u128 * u128::from(to) / u128::from(from.max(1));
    let in_proportion = usize::try_from(in_proportion - in_proportion.div_ceil(8)).unwrap_or(usize::MAX);
    let (settled, bounds) = if to >= from {
        (in_proportion.max(known.settled), Bounds { smallest_failure: None, ..known.bounds })
    } else {
        (in_proportion.max(1), Bounds { largest_success: None, ..known.bounds })
    };
    Remembered { settled, bounds, ..known }
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

    use super::{is_news, on_other_memory, on_same_memory};
    use crate::cache::Remembered;
    use crate::policy::{Bounds, Measurements, Sample};

    fn measurements(sizes: &[usize]) -> Measurements {
        Measurements { samples: sizes.iter().map(|&size| Sample::new(size)).collect(), ..Measurements::NEW }
    }

    fn known(settled: usize, largest_success: Option<usize>, smallest_failure: Option<usize>) -> Remembered {
        Remembered { bounds: Bounds { largest_success, smallest_failure }, ..Remembered::new(settled) }
    }

    fn shown(remembered: &Remembered) -> (usize, Option<usize>, Option<usize>) {
        (remembered.settled, remembered.bounds.largest_success, remembered.bounds.smallest_failure)
    }

    #[test]
    fn a_size_at_the_edge_steps_back() {
        let same = |settled, success, failure| shown(&on_same_memory(known(settled, success, failure)));
        assert_eq!(same(99, Some(99), Some(100)), (93, Some(93), Some(100)));
        assert_eq!(same(64, Some(64), Some(128)), (64, Some(64), Some(128)));
        assert_eq!(same(1, Some(1), Some(2)), (1, Some(1), Some(2)));
        assert_eq!(same(1, None, Some(1)), (1, None, Some(1)));
        assert_eq!(same(64, None, None), (64, None, None));
        assert_eq!(same(usize::MAX, None, None), (usize::MAX, None, None));
    }

    #[test]
    fn another_memory_scales_with_head_room() {
        let other = |from, to| shown(&on_other_memory(known(64, Some(64), Some(128)), from, to));
        assert_eq!(other(80, 40), (28, None, Some(128)));
        assert_eq!(other(40, 80), (112, Some(64), None));
        assert_eq!(other(80, 81), (64, Some(64), None));
        assert_eq!(other(80, 79), (55, None, Some(128)));
        assert_eq!(other(80, 0), (1, None, Some(128)));
        assert_eq!(other(0, 80).0, 64 * 80 * 7 / 8);
        assert_eq!(shown(&on_other_memory(known(usize::MAX, None, None), 1, u64::MAX)).0, usize::MAX);
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
        let measured = |sizes: &[usize]| Remembered {
            measurements: Some(Arc::new(measurements(sizes))),
            ..base.clone()
        };
        assert!(is_news(&base, &measured(&[8])));
        assert!(is_news(&measured(&[8]), &measured(&[8, 64])));
        assert!(!is_news(&measured(&[8]), &measured(&[9])));
        assert!(!is_news(&measured(&[8]), &base));
    }
}
