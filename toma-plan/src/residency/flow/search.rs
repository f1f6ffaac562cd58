//! A search for the cheapest choice of gaps.

use super::cover::{Cover, CoverTask, as_float};
use super::prices;

/// Limit on the work of a search, in gaps and operators looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort(pub(super) u64);

impl Effort {
    /// Spends the effort of so many passes; false if less is left.
    fn looks(&mut self, task: CoverTask<'_>, count: u64) -> bool {
        let cost = task.size() * count;
        let may = self.0 >= cost;
        self.0 = self.0.saturating_sub(cost);
        may
    }
}

/// Number of rounds in which prices settle.
const PRICE_ROUNDS: u64 = 200;

/// Number of choices that are improved.
const STARTS: usize = 4;

/// Steps of at most so many gaps are searched completely, until the effort is spent.
const FEW_GAPS: usize = 40;

/// Returns the best choice for a task; `None` if an operator does not fit.
pub(super) fn search(task: CoverTask<'_>, mut effort: Effort) -> Option<Cover<'_>> {
    let best = settled(Cover::new(task))?;
    let rounds = PRICE_ROUNDS.min(effort.0 / 4 / task.size());
    let priced = prices::choose(task, best.cost, usize::try_from(rounds).unwrap_or_default());
    let few = (effort.0 / 1000 / task.size()).clamp(1, priced.len() as u64);
    let few = usize::try_from(few).unwrap_or(1);
    let settled = priced.iter().rev().take(few).filter_map(|chosen| settled(Cover::of(task, chosen)));
    let mut starts: Vec<_> = settled.chain([best]).collect();
    starts.sort_by_key(|start| start.cost);
    starts.truncate(STARTS);
    effort.0 /= 2;
    for start in &mut starts {
        improve(start, &mut Effort(effort.0 / STARTS as u64));
    }
    let mut best = starts.into_iter().reduce(cheaper)?;
    if task.gaps.rows.len() <= FEW_GAPS {
        let mut barred = vec![false; task.gaps.rows.len()];
        branch(&mut best, &mut Cover::new(task), &mut barred, &mut effort);
    }
    Some(best)
}

/// Adds the gaps that are still missing from the cover, then removes redundant ones.
fn settled(mut cover: Cover<'_>) -> Option<Cover<'_>> {
    cover.repair(None, u64::MAX)?;
    cover.prune();
    Some(cover)
}

fn cheaper<'a>(one: Cover<'a>, other: Cover<'a>) -> Cover<'a> {
    if other.cost < one.cost { other } else { one }
}

/// Removes or adds single gaps, each with the changes that follow, as long as the choice gets cheaper.
fn improve(best: &mut Cover<'_>, effort: &mut Effort) {
    loop {
        let before = best.cost;
        for gap in 0..best.chosen.len() {
            if !effort.looks(best.task, 1) {
                return;
            }
            let found = if best.chosen[gap] { without(best, gap, effort) } else { Some(with(best, gap)) };
            if let Some(found) = found.filter(|found| found.cost < best.cost) {
                *best = found;
            }
        }
        if best.cost >= before {
            return;
        }
    }
}

/// Replaces one gap by others, if they may be cheaper.
pub(super) fn without<'a>(cover: &Cover<'a>, gap: usize, effort: &mut Effort) -> Option<Cover<'a>> {
    let price = cover.price(gap);
    let mut found = cover.clone();
    found.remove(gap);
    let added = if price > 0 { found.repair(Some(gap), cover.cost) } else { None };
    effort.looks(cover.task, added.unwrap_or(1));
    found.prune();
    added.map(|_| found)
}

/// Adds one gap, and removes those that are then redundant.
fn with<'a>(cover: &Cover<'a>, gap: usize) -> Cover<'a> {
    let mut found = cover.clone();
    found.add(gap);
    found.prune();
    found
}

/// Searches all choices that are cheaper than the best and contain the chosen gaps of `cover`.
fn branch<'a>(best: &mut Cover<'a>, cover: &mut Cover<'a>, barred: &mut [bool], effort: &mut Effort) {
    if cover.cost >= best.cost || !effort.looks(cover.task, 1) {
        return;
    }
    let Some(operator) = cover.worst() else {
        *best = cover.clone();
        return;
    };
    let beside = cover.task.gaps.beside(operator).filter(|(gap, _)| !cover.chosen[*gap] && !barred[*gap]);
    let mut over: Vec<_> =
        beside.map(|(gap, row)| (as_float(cover.price(gap)) / as_float(row.length as u64), gap)).collect();
    over.sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    for &(_, gap) in &over {
        cover.add(gap);
        branch(best, cover, barred, effort);
        cover.remove(gap);
        barred[gap] = true;
    }
    for (_, gap) in over {
        barred[gap] = false;
    }
}
