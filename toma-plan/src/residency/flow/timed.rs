//! A search near a plan for a faster one.

use super::super::{Step, Terms};
use super::cover::Cover;
use super::search::{self, Attempt, Effort};
use super::{Planned, is_better};

/// How many operators are simulated at most.
const OPERATORS: usize = 400_000;

/// Changes what is away as long as that makes the plan faster.
pub(super) fn improve(step: &Step, terms: &Terms, best: &mut Planned<'_>) {
    let mut left = OPERATORS / step.operators.len();
    let mut effort = Effort(u64::MAX);
    loop {
        let mut is_done = true;
        for gap in 0..best.cover.chosen.len() {
            let attempts: &[Attempt] = if best.cover.chosen[gap] {
                &[stays, search::without, search::without_version]
            } else {
                &[leaves, search::with]
            };
            for attempt in attempts {
                let Some(cover) = attempt(&best.cover, gap, &mut effort) else { continue };
                if left == 0 {
                    return;
                }
                left -= 1;
                let found = Planned::new(step, terms, cover);
                if is_better(&found.plan, &best.plan) {
                    (*best, is_done) = (found, false);
                    break;
                }
            }
        }
        if is_done {
            return;
        }
    }
}

fn stays<'a>(cover: &Cover<'a>, gap: usize, _: &mut Effort) -> Option<Cover<'a>> {
    let mut found = cover.clone();
    found.remove(gap);
    found.worst().is_none().then_some(found)
}

fn leaves<'a>(cover: &Cover<'a>, gap: usize, _: &mut Effort) -> Option<Cover<'a>> {
    let mut found = cover.clone();
    found.add(gap);
    Some(found)
}
