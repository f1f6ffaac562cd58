//! Decides when a settled size is worth an attempt at twice the size.

use std::time::Duration;

/// Successes at a settled size before the first doubt.
const SUCCESSES: u32 = 64;

/// Time since the size was settled, or last doubted, before the first doubt.
const WAIT: Duration = Duration::from_secs(60);

/// Beyond this number of doublings the waiting time grows no more: 4 million successes and 45 days.
const MAX_DOUBLINGS: u32 = 16;

/// Counts successes at a settled size until a larger one is worth an attempt.
///
/// One burst of other work may have settled a size far below the largest that fits. A policy that never grows would
/// stay there for the life of the process. So after `64 * 2^n` successes, and `2^n` minutes since the size was settled,
/// one attempt runs at twice the size, where `n` counts the doubts that have failed in a row: if twice the size always
/// fails, the attempts at it become ever rarer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Doubt {
    successes: u32,
    failed: u32,
}

impl Doubt {
    /// Creates the doubt about a size after `failed` doubts in a row have failed.
    pub(crate) const fn after(failed: u32) -> Self {
        Self { successes: 0, failed }
    }

    /// Counts a success; true when the coming attempt should be at twice the size.
    ///
    /// `elapsed`, the time since the size was settled, is read only at the last success that is needed. If it is too
    /// short, the same number of successes is counted anew.
    #[inline]
    pub(crate) fn succeeded(&mut self, elapsed: impl FnOnce() -> Duration) -> bool {
        self.successes += 1;
        if self.successes < SUCCESSES << self.doublings() {
            return false;
        }
        self.successes = 0;
        elapsed() >= WAIT * (1 << self.doublings())
    }

    /// Number of doubts that have failed in a row.
    pub(crate) const fn failed(self) -> u32 {
        self.failed
    }

    const fn doublings(self) -> u32 {
        if self.failed < MAX_DOUBLINGS { self.failed } else { MAX_DOUBLINGS }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Doubt, MAX_DOUBLINGS, SUCCESSES, WAIT};

    /// Successes until the doubt, when `elapsed` has passed at each.
    fn until_due(mut doubt: Doubt, elapsed: Duration) -> u32 {
        let mut successes = 1;
        while !doubt.succeeded(|| elapsed) {
            successes += 1;
        }
        successes
    }

    #[test]
    fn both_numbers_double_with_each_doubt_that_fails() {
        for failed in 0..MAX_DOUBLINGS {
            let (needed, wait) = (SUCCESSES << failed, WAIT * (1 << failed));
            assert_eq!(until_due(Doubt::after(failed), wait), needed, "{failed} failed");
            let early = wait.checked_sub(Duration::from_nanos(1)).unwrap();
            let mut doubt = Doubt::after(failed);
            assert!((0..needed * 2).all(|_| !doubt.succeeded(|| early)), "{failed} failed");
        }
        for failed in [MAX_DOUBLINGS + 1, u32::MAX] {
            assert_eq!(until_due(Doubt::after(failed), Duration::MAX), SUCCESSES << MAX_DOUBLINGS);
        }
    }

    #[test]
    fn the_clock_is_read_at_the_last_success_only() {
        let (mut doubt, mut readings) = (Doubt::default(), 0);
        for success in 1..=SUCCESSES * 3 {
            let is_due = doubt.succeeded(|| {
                readings += 1;
                if readings == 3 { WAIT } else { Duration::ZERO }
            });
            assert_eq!((is_due, readings), (success == SUCCESSES * 3, success / SUCCESSES));
        }
    }
}
