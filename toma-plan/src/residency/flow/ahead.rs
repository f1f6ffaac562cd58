//! When storages that are away are fetched.

use super::super::{Absence, Back};
use super::cover::Cover;

/// The absences of a choice: each ends as early as there is room from then on.
pub(super) fn early(cover: &Cover<'_>, budget_bytes: u64) -> Vec<Absence> {
    let gaps = cover.task.gaps;
    let more = budget_bytes.cast_signed() - cover.task.budget_bytes.cast_signed();
    let mut free: Vec<_> = cover.free.iter().map(|free| free + more).collect();
    let mut order: Vec<_> = cover.chosen_gaps().collect();
    // By the operators that they end at: what is needed first is fetched first.
    order.sort_by_key(|gap| (gaps.gaps[*gap].until(gaps.operators), gaps.gaps[*gap].storage));
    let absence = |gap: usize| {
        let gap = &gaps.gaps[gap];
        let used_by = gap.until(gaps.operators);
        let mut fetched_at = used_by;
        for back in 1..=gap.length {
            let operator = (used_by + gaps.operators - back) % gaps.operators;
            if !gap.comes_back || free[operator] < gap.bytes.cast_signed() {
                break;
            }
            free[operator] -= gap.bytes.cast_signed();
            fetched_at = operator;
        }
        let back = gap.comes_back.then_some(Back { fetched_at, used_by });
        Absence { storage: gap.storage, leaves_after: gap.after, back }
    };
    order.into_iter().map(absence).collect()
}
