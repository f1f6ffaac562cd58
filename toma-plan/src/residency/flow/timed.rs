//! A search for a faster plan in the neighborhood of a plan.

use super::super::{Step, Terms};
use super::planned::{Planned, Worth};
use super::search::{self, Effort};

/// Limit on the operators that are simulated.
const OPERATORS: usize = 400_000;

/// Changes the choice of gaps as long as that makes the plan faster.
///
/// An eviction that is not needed for the budget makes room to fetch other storages ahead.
pub(super) fn improve(step: &Step, terms: &Terms, best: &mut Planned<'_>) {
    let mut left = OPERATORS / step.operators.len();
    let mut is_done = false;
    while !is_done {
        is_done = true;
        for gap in 0..best.cover.chosen.len() {
            let cover = if best.cover.chosen[gap] {
                search::without(&best.cover, gap, &mut Effort(u64::MAX))
            } else {
                let mut cover = best.cover.clone();
                cover.add(gap);
                Some(cover)
            };
            let Some(cover) = cover else { continue };
            if left == 0 {
                return;
            }
            left -= 1;
            let found = Planned::new(step, terms, cover, best.pace);
            if Worth::of(&found.plan).beats(Worth::of(&best.plan)) {
                (*best, is_done) = (found, false);
            }
        }
    }
}
