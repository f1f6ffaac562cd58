//! Decides when a known failure is tried again.

use std::time::Duration;

use super::worth::items_so_far;
use super::{Adaptive, Evidence};
use crate::policy::facts::{failure, failure_beyond, has_risen, is_batch, is_far};

/// Successes, and time, before which no failure is doubted.
///
/// Without the first: median +26 % warm (batch, none, noise). Without the second no figure: see the tests
/// `a_burst_that_leaves_the_smallest_size_alone_passes` and `time_or_a_rise_of_free_memory_makes_a_failure_doubtful`.
const CLEAN_RUNS: f64 = 16.0;
const AGE: Duration = Duration::from_secs(600);
/// If free memory can be read and has not risen, a doubt needs this many times as many successes and as much time, and
/// at least this share of the successes since the failure was found.
///
/// Without the first: median +2.1 % warm (batch, counts, noise). Without the share 31 failures instead of 9 at p95
/// (range, reads), and 0.06 % of time: see the test `the_search_ends`.
const VISIBLE: u32 = 64;
const VISIBLE_DOUBT: f64 = 0.75;

/// Number of attempts that must be left, or half of those made so far, for a doubt by count: one failure costs little
/// compared to them, and most of the gain is still to come.
///
/// Without: median +1.5 % warm (range, none). Without the attempts made so far: +1.9 % warm (range, none, failures by
/// chance).
const WORTH_A_DOUBT: usize = 500;

impl Adaptive {
    /// Returns the known failure, or a larger size, if it should be tried again.
    pub(super) fn expire(&self, evidence: &Evidence) -> Option<usize> {
        let high = failure_beyond(evidence.step, evidence)?;
        let goal = if has_risen(evidence) {
            // Without: 33 times as long at p95 (range, counts, shortage).
            high
        } else if !self.has_expired(evidence) {
            return None;
        } else if evidence.measurements.confirmed.is_multiple_of(2) {
            high
        } else {
            // Memory need not grow with the size, so after a failure is confirmed the next try passes over it.
            // Without: median +0.4 % cold, p95 +1.3 % warm (batch, none, noise).
            high.saturating_add(high / 2)
        };
        self.may_try(goal, evidence).then_some(goal)
    }

    fn has_expired(&self, evidence: &Evidence) -> bool {
        let measurements = &evidence.measurements;
        // Visible memory does not show the disturbance of a size that had worked. Without: 35 times as long at p95
        // (batch, counts, failures by chance).
        let is_visible = evidence.available_bytes.is_some() && measurements.ceiling.is_none();
        let (times, share) =
            if is_visible { (VISIBLE, self.doubt.max(VISIBLE_DOUBT)) } else { (1, self.doubt) };
        // Without the share that the parameter `doubt` sets: p95 +1.6 % warm (batch, none).
        let enough = (CLEAN_RUNS * f64::from(times)).max(share * f64::from(measurements.known_runs));
        f64::from(measurements.clean_runs) >= enough && self.is_worth_a_doubt(evidence)
            || measurements.failure_age >= AGE.saturating_mul(times)
    }

    /// True if one more failure costs little compared to the possible gain.
    fn is_worth_a_doubt(&self, evidence: &Evidence) -> bool {
        if is_far(evidence) {
            // The sizes below the failure come first. Without: p95 +2.6 % cold (batch, none).
            return false;
        }
        let Some(line) = evidence.measurements.samples.seconds() else { return false };
        if is_batch(evidence) {
            // Without: median +0.9 % warm (batch, none).
            return self.pays(failure(evidence).unwrap_or(evidence.step), evidence, &line);
        }
        let items = evidence.remaining.max(items_so_far(evidence, &line) / 2);
        items / WORTH_A_DOUBT >= evidence.step
    }
}
