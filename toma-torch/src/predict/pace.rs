//! Limit on the time that a site spends on dry runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use toma_core::predict::now;

use super::recent::Recent;

/// Dry runs of a site without a limit: most sites have a few shapes.
const FREE: u64 = 16;

/// Further dry runs take at most one part in so many of the time of the calls.
const SHARE: u64 = 20;

/// Time of a site's dry runs, and of its calls.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    runs: AtomicU64,
    dry_nanos: AtomicU64,
    call_nanos: AtomicU64,
}

impl Pace {
    /// Returns the pace of a site.
    pub(super) fn of<K: Clone + PartialEq>(paces: &Recent<K, Arc<Self>>, site: &K) -> Arc<Self> {
        paces.of(site).unwrap_or_else(|| {
            paces.keep(site.clone(), Arc::default());
            paces.of(site).unwrap_or_default()
        })
    }

    /// Returns true if one more dry run, of the mean duration, is within the limit.
    pub(crate) fn allows(&self) -> bool {
        let [runs, dry, calls] = [&self.runs, &self.dry_nanos, &self.call_nanos].map(|sum| sum.load(Relaxed));
        runs < FREE || (dry + dry / runs).saturating_mul(SHARE) <= calls
    }

    /// Calls `run` and counts its time.
    pub(crate) fn runs_dry<R>(&self, run: impl FnOnce() -> R) -> R {
        let begun = now();
        let ran = run();
        self.ran_dry(now().saturating_duration_since(begun));
        ran
    }

    fn ran_dry(&self, time: Duration) {
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

#[cfg(test)]
mod tests {
    use super::{Duration, FREE, Pace};

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
}
