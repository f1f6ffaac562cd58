//! The cheapest choice of gaps that is found.

use super::cover::{Cover, Task, as_float};
use super::prices;
use super::rules::{self, Rule};

/// How much a search may do, in gaps and operators looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort(pub(super) u64);

impl Effort {
    /// Takes what some looks at everything cost, if there is as much.
    fn looks(&mut self, task: Task<'_>, count: u64) -> bool {
        let cost = task.size() * count;
        let may = self.0 >= cost;
        self.0 = self.0.saturating_sub(cost);
        may
    }
}

/// Rounds after which what a rule does has settled.
const ROUNDS: usize = 3;

/// Rounds in which prices settle.
const PRICE_ROUNDS: u64 = 200;

/// How many choices are improved.
const STARTS: usize = 4;

/// The most gaps of steps of which every choice is looked at, until the effort is spent.
const FEW_GAPS: usize = 40;

/// The best choice for a task; `None` where an operator does not fit.
pub(super) fn search(task: Task<'_>, mut effort: Effort) -> Option<Cover<'_>> {
    let ruled = [Rule::NextEvent, Rule::Lru].map(|rule| {
        let replayed = rules::replay(task.gaps, task.budget_bytes, rule, ROUNDS)?;
        settled(Cover::of(task, &replayed.chosen))
    });
    let best = ruled.into_iter().flatten().reduce(cheaper)?;
    let rounds = PRICE_ROUNDS.min(effort.0 / 4 / task.size());
    let priced = prices::choose(task, best.cost, usize::try_from(rounds).unwrap_or_default());
    let few = (effort.0 / 1000 / task.size()).clamp(1, priced.len() as u64);
    let few = usize::try_from(few).unwrap_or(1);
    let settled = priced.iter().rev().take(few).filter_map(|chosen| settled(Cover::of(task, chosen)));
    let mut starts: Vec<_> = settled.chain([best]).collect();
    starts.sort_by(|one, other| one.cost.total_cmp(&other.cost));
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

/// With what it lacks, and without what it does not need.
fn settled(mut cover: Cover<'_>) -> Option<Cover<'_>> {
    cover.repair(&[], f64::INFINITY)?;
    cover.prune();
    Some(cover)
}

fn cheaper<'a>(one: Cover<'a>, other: Cover<'a>) -> Cover<'a> {
    if other.cost < one.cost { other } else { one }
}

/// A choice near another one, by what is done with one gap, if it may be cheaper.
pub(super) type Attempt = for<'a> fn(&Cover<'a>, usize, &mut Effort) -> Option<Cover<'a>>;

/// Takes gaps back or adds them, each with what follows, as long as that makes the whole cheaper.
fn improve(best: &mut Cover<'_>, effort: &mut Effort) {
    loop {
        let before = best.cost;
        for gap in 0..best.chosen.len() {
            let attempts: &[Attempt] = if best.chosen[gap] { &[without, without_version] } else { &[with] };
            for attempt in attempts {
                if !effort.looks(best.task, 1) {
                    return;
                }
                let found = attempt(best, gap, effort);
                if let Some(found) = found.filter(|found| found.cost < best.cost - best.least_gain()) {
                    *best = found;
                    break;
                }
            }
        }
        if best.cost >= before {
            return;
        }
    }
}

pub(super) fn without<'a>(cover: &Cover<'a>, gap: usize, effort: &mut Effort) -> Option<Cover<'a>> {
    (cover.price(gap) > 0.0).then_some(())?;
    retaken(cover, &[gap], effort)
}

/// Without all gaps of a version, so that it is not copied out.
pub(super) fn without_version<'a>(cover: &Cover<'a>, gap: usize, effort: &mut Effort) -> Option<Cover<'a>> {
    let gaps = &cover.task.gaps.rows;
    let is_alike = |other: &usize| gaps[*other].version == gaps[gap].version;
    if gap > 0 && is_alike(&(gap - 1)) {
        return None;
    }
    let alike: Vec<_> = (gap..gaps.len()).take_while(is_alike).filter(|gap| cover.chosen[*gap]).collect();
    (alike.len() > 1).then_some(())?;
    retaken(cover, &alike, effort)
}

fn retaken<'a>(cover: &Cover<'a>, barred: &[usize], effort: &mut Effort) -> Option<Cover<'a>> {
    let mut found = cover.clone();
    for gap in barred {
        found.remove(*gap);
    }
    let added = found.repair(barred, cover.cost);
    effort.looks(cover.task, added.unwrap_or(1));
    found.prune();
    added.map(|_| found)
}

#[expect(clippy::unnecessary_wraps, reason = "one of the attempts")]
pub(super) fn with<'a>(cover: &Cover<'a>, gap: usize, _: &mut Effort) -> Option<Cover<'a>> {
    let mut found = cover.clone();
    found.add(gap);
    found.prune();
    Some(found)
}

/// Looks at every choice that is cheaper than the best, from one whose gaps stay chosen.
fn branch<'a>(best: &mut Cover<'a>, cover: &mut Cover<'a>, barred: &mut [bool], effort: &mut Effort) {
    if cover.cost >= best.cost - best.least_gain() || !effort.looks(cover.task, 1) {
        return;
    }
    let Some(operator) = cover.worst() else {
        *best = cover.clone();
        return;
    };
    let beside = cover.task.gaps.beside(operator).filter(|(gap, _)| !cover.chosen[*gap] && !barred[*gap]);
    let mut over: Vec<_> =
        beside.map(|(gap, row)| (cover.price(gap) / as_float(row.length as u64), gap)).collect();
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
