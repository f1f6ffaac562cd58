//! A search near a plan for a faster one.

use super::super::{Step, Terms};
use super::planned::{Planned, Worth};
use super::search::{self, Effort};

/// How many operators are simulated at most.
const OPERATORS: usize = 400_000;

/// Changes what is away as long as that makes the plan faster.
///
/// What is away without need makes room for what is fetched ahead.
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
