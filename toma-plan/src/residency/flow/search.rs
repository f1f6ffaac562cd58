//! The cheapest choice of gaps that is found.

use super::cover::{Cover, Task};
use super::prices;
use super::rules::{self, Rule};

/// How much a search may do, in gaps and operators looked at.
#[derive(Debug)]
pub(super) struct Effort(pub(super) u64);

impl Effort {
    /// Takes what one look at everything costs.
    fn look(&mut self, task: Task<'_>) -> bool {
        let cost = (task.gaps.gaps.len() + task.gaps.operators) as u64;
        let may = self.0 >= cost;
        self.0 = self.0.saturating_sub(cost);
        may
    }
}

/// Rounds after which what a rule does has settled.
const ROUNDS: usize = 3;

/// The best choice for a task; `None` where an operator does not fit.
pub(super) fn search<'a>(task: Task<'a>, effort: &mut Effort) -> Option<Cover<'a>> {
    let starts = [Rule::NextEvent, Rule::Lru].map(|rule| {
        let replayed = rules::replay(task.gaps, task.budget_bytes, rule, ROUNDS)?;
        settled(Cover::of(task, &replayed.chosen))
    });
    let best = starts.into_iter().flatten().reduce(cheaper)?;
    // A fifth of the effort is enough for the prices to settle.
    let looks = effort.0 / 5 / (task.gaps.gaps.len() + task.gaps.operators) as u64;
    let rounds = usize::try_from(looks.min(200)).unwrap_or_default();
    let priced = prices::choose(task, best.cost, rounds);
    let mut starts: Vec<_> = priced.iter().filter_map(|chosen| settled(Cover::of(task, chosen))).collect();
    starts.push(best);
    starts.sort_by(|one, other| one.cost.total_cmp(&other.cost));
    starts.truncate(STARTS);
    let share = effort.0 / 2 / STARTS as u64;
    for start in &mut starts {
        improve(start, &mut Effort(share));
    }
    let mut best = starts.into_iter().reduce(cheaper)?;
    let mut rest = Effort(BRANCHES.min(effort.0));
    branch(&mut best, &mut Cover::new(task), &mut vec![false; task.gaps.gaps.len()], &mut rest);
    Some(best)
}

/// What small steps are looked through with, choice by choice.
const BRANCHES: u64 = 2_000_000;

/// How many choices are improved.
const STARTS: usize = 4;

/// Looks at every choice that is cheaper than the best, from one whose gaps stay chosen, until the effort is spent.
fn branch<'a>(best: &mut Cover<'a>, cover: &mut Cover<'a>, barred: &mut [bool], effort: &mut Effort) {
    if cover.cost >= best.cost - best.least_gain() || !effort.look(cover.task) {
        return;
    }
    let Some(operator) = cover.worst() else {
        *best = cover.clone();
        return;
    };
    let gaps = &cover.task.gaps.gaps;
    let mut over: Vec<_> = (0..gaps.len())
        .filter(|gap| !cover.chosen[*gap] && !barred[*gap] && gaps[*gap].is_beside(operator, cover.free.len()))
        .map(|gap| (cover.price(gap) / gaps[gap].length as f64, gap))
        .collect();
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

/// With what it lacks, and without what it does not need.
fn settled(mut cover: Cover<'_>) -> Option<Cover<'_>> {
    if !cover.repair(&[]) {
        return None;
    }
    cover.prune();
    Some(cover)
}

fn cheaper<'a>(one: Cover<'a>, other: Cover<'a>) -> Cover<'a> {
    if other.cost < one.cost { other } else { one }
}

/// A choice near another one, by what is done with one gap.
type Attempt = for<'a> fn(&Cover<'a>, usize, &mut Effort) -> Option<Cover<'a>>;

/// Takes gaps back or adds them, each with what follows, as long as that makes the whole cheaper.
fn improve(best: &mut Cover<'_>, effort: &mut Effort) {
    loop {
        let before = best.cost;
        for gap in 0..best.chosen.len() {
            let attempts: &[Attempt] = if best.chosen[gap] { &[without, without_version] } else { &[with] };
            for attempt in attempts {
                if !effort.look(best.task) {
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

fn without<'a>(cover: &Cover<'a>, gap: usize, effort: &mut Effort) -> Option<Cover<'a>> {
    (cover.price(gap) > 0.0).then_some(())?;
    retaken(cover, &[gap], effort)
}

/// Without all gaps of a version, so that it is not copied out.
fn without_version<'a>(cover: &Cover<'a>, gap: usize, effort: &mut Effort) -> Option<Cover<'a>> {
    let gaps = &cover.task.gaps.gaps;
    let alike: Vec<_> =
        cover.chosen_gaps().filter(|other| gaps[*other].version == gaps[gap].version).collect();
    if alike.len() < 2 || alike[0] != gap {
        return None;
    }
    retaken(cover, &alike, effort)
}

fn retaken<'a>(cover: &Cover<'a>, barred: &[usize], effort: &mut Effort) -> Option<Cover<'a>> {
    let mut found = cover.clone();
    barred.iter().for_each(|gap| found.remove(*gap));
    effort.look(cover.task);
    found.repair(barred).then_some(())?;
    found.prune();
    Some(found)
}

fn with<'a>(cover: &Cover<'a>, gap: usize, _: &mut Effort) -> Option<Cover<'a>> {
    let mut found = cover.clone();
    found.add(gap);
    found.prune();
    Some(found)
}
