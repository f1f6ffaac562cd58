//! Times at which evicted storages are fetched.

use super::super::{Absence, Back, Step, Terms};
use super::cover::{Cover, as_float};

/// Times left for each fetch, as multiples of its time on the link. Among equals, the longest wins.
pub(super) const PACES: [f64; 4] = [f64::INFINITY, 4.0, 2.0, 1.2];

/// Returns the absences of a choice, in the order of the operators that end them.
///
/// A fetch begins as late as the link allows, which carries fetches in the order of the operators that need them; at a
/// pace of infinity it begins as soon as possible. It begins later if there is no room from then on.
pub(super) fn absences(cover: &Cover<'_>, step: &Step, terms: &Terms, pace: f64) -> Vec<Absence> {
    let gaps = cover.task.gaps;
    let more = terms.budget_bytes.cast_signed() - cover.task.budget_bytes.cast_signed();
    let mut free: Vec<_> = cover.free.iter().map(|free| free + more).collect();
    let mut order: Vec<_> = cover.chosen_gaps().collect();
    order.sort_by_key(|gap| (gaps.rows[*gap].until(gaps.operators), gaps.rows[*gap].storage));
    // A link that takes no time needs no lead.
    let is_free = terms.in_bytes_per_second.is_infinite();
    let leads = leads(cover, &order, step, if is_free { 0.0 } else { pace / terms.in_bytes_per_second });
    let absence = |(gap, lead): (usize, f64)| {
        let gap = &gaps.rows[gap];
        let used_by = gap.until(gaps.operators);
        let (mut fetched_at, mut ahead) = (used_by, 0.0);
        for back in 1..=gap.length {
            let operator = (used_by + gaps.operators - back) % gaps.operators;
            if ahead >= lead || free[operator] < gap.bytes.cast_signed() {
                break;
            }
            free[operator] -= gap.bytes.cast_signed();
            ahead += step.operators[operator].duration.as_secs_f64();
            fetched_at = operator;
        }
        let back = gap.comes_back.then_some(Back { fetched_at, used_by });
        Absence { storage: gap.storage, leaves_after: gap.after, back }
    };
    order.iter().copied().zip(leads).map(absence).collect()
}

/// Returns the lead of each fetch before its operator, for fetches in the order of those operators.
fn leads(cover: &Cover<'_>, order: &[usize], step: &Step, seconds_per_byte: f64) -> Vec<f64> {
    let gaps = cover.task.gaps;
    let mut starts = vec![0.0; gaps.operators];
    for operator in 1..gaps.operators {
        starts[operator] = starts[operator - 1] + step.operators[operator - 1].duration.as_secs_f64();
    }
    let mut leads = vec![0.0; order.len()];
    let mut next = f64::INFINITY;
    // Goes backwards from the end, and once more with the fetches that the next step needs at its start.
    for end in [step.seconds(), 0.0] {
        for (lead, gap) in leads.iter_mut().zip(order).rev() {
            let gap = &gaps.rows[*gap];
            if gap.comes_back && seconds_per_byte > 0.0 {
                let needed = starts[gap.until(gaps.operators)] + end;
                next = needed.min(next) - as_float(gap.bytes) * seconds_per_byte;
                *lead = needed - next;
            }
        }
    }
    leads
}
