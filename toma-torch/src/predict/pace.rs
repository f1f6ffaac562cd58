//! How much of its time a site spends on dry runs.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Dry runs of a site that cost what they cost: most have a few shapes.
const FREE: u64 = 16;

/// Beyond them dry runs take at most one part in so many of the time of the calls.
const SHARE: u64 = 20;

/// Sites that are kept.
const KEPT: usize = 256;

/// The time that dry runs of a site took, and its calls.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    runs: AtomicU64,
    dry_nanos: AtomicU64,
    call_nanos: AtomicU64,
}

impl Pace {
    /// Whether one more dry run, as long as the others, is within the bound.
    pub(crate) fn allows(&self) -> bool {
        let [runs, dry, calls] = [&self.runs, &self.dry_nanos, &self.call_nanos].map(|sum| sum.load(Relaxed));
        runs < FREE || (dry + dry / runs).saturating_mul(SHARE) <= calls
    }

    pub(crate) fn ran_dry(&self, time: Duration) {
        self.runs.fetch_add(1, Relaxed);
        self.dry_nanos.fetch_add(nanos(time), Relaxed);
    }

    pub(crate) fn called(&self, time: Duration) {
        self.call_nanos.fetch_add(nanos(time), Relaxed);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The paces of sites, the newest last.
#[derive(Debug)]
pub(crate) struct Paces<P>(Mutex<VecDeque<(P, Arc<Pace>)>>);

impl<P: PartialEq> Paces<P> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }

    pub(crate) fn of(&self, site: P) -> Arc<Pace> {
        let mut paces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pace)) = paces.iter().find(|(known, _)| *known == site) {
            return Arc::clone(pace);
        }
        if paces.len() == KEPT {
            paces.pop_front();
        }
        let pace = Arc::<Pace>::default();
        paces.push_back((site, Arc::clone(&pace)));
        pace
    }
}

#[cfg(test)]
mod tests {
    use super::{Arc, Duration, FREE, Pace, Paces};

    #[test]
    fn a_twentieth_of_the_time_is_for_dry_runs_once_the_first_are_over() {
        let pace = Pace::default();
        for _ in 0..FREE {
            assert!(pace.allows());
            pace.ran_dry(Duration::from_millis(1));
        }
        assert!(!pace.allows());
        pace.called(Duration::from_millis((FREE + 1) * 20 - 1));
        assert!(!pace.allows());
        pace.called(Duration::from_millis(1));
        assert!(pace.allows());
        pace.ran_dry(Duration::from_millis(1));
        assert!(!pace.allows());
    }

    #[test]
    fn a_site_keeps_its_pace() {
        let paces = Paces::new();
        assert!(Arc::ptr_eq(&paces.of(1), &paces.of(1)));
        assert!(!Arc::ptr_eq(&paces.of(1), &paces.of(2)));
    }
}
