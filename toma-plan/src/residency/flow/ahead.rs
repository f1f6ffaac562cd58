//! When storages that are away are fetched.

use super::super::{Absence, Back};
use super::cover::Cover;

/// When storages are fetched.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ahead {
    /// By the operators that need them.
    Never,
    /// As soon as there is room in so many bytes from then on.
    WhereRoom(u64),
}

/// The absences of a choice, in the order of the operators that end them.
pub(super) fn absences(cover: &Cover<'_>, ahead: Ahead) -> Vec<Absence> {
    let gaps = cover.task.gaps;
    let more = match ahead {
        Ahead::Never => i64::MIN,
        Ahead::WhereRoom(budget_bytes) => budget_bytes.cast_signed() - cover.task.budget_bytes.cast_signed(),
    };
    let mut free: Vec<_> = cover.free.iter().map(|free| free.saturating_add(more)).collect();
    let mut order: Vec<_> = cover.chosen_gaps().collect();
    // By the operators that they end at: what is needed first is fetched first.
    order.sort_by_key(|gap| (gaps.rows[*gap].until(gaps.operators), gaps.rows[*gap].storage));
    let absence = |gap: usize| {
        let gap = &gaps.rows[gap];
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
