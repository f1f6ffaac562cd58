//! The eviction that plans.

mod ahead;
mod cover;
mod gaps;
mod planned;
mod prices;
mod search;
mod timed;

use cover::Task;
use gaps::Gaps;
use planned::{Planned, Worth, better};
use search::Effort;

use super::{Eviction, NextEvent, Plan, Situation, Step, Terms, simulate};

/// Plans a step that is known: which storages are away when, and when they are fetched.
///
/// On demand it acts as [`NextEvent`]. A plan chooses among the gaps between the operators that touch a storage, by
/// prices of the room beside each operator, and improves its choice one gap at a time. What is away leaves right after
/// its last use, and is fetched as early as there is room, or as late as the link allows. That is done in the whole
/// budget and in less, which leaves room to fetch ahead. The fastest plan is improved by its simulated time. Where
/// moving takes no time, the one of the least bytes is taken.
///
/// There is none where an operator does not fit, or where [`NextEvent`] alone is better, which may take turns over
/// several steps. Equal steps and terms have equal plans. One of 10,000 operators takes less than a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Flow {}

impl Eviction for Flow {
    fn name(&self) -> &'static str {
        "flow"
    }

    fn evict(&mut self, situation: &Situation<'_>) -> Vec<u64> {
        NextEvent.evict(situation)
    }

    fn plan(&mut self, step: &Step, terms: &Terms) -> Option<Plan> {
        plan(step, terms)
    }
}

/// Parts of the budget in percent that are left free for storages that are fetched ahead.
const RESERVES: [u64; 7] = [0, 5, 10, 15, 20, 25, 30];

/// Those for large steps, so that plans are found in a second.
const FEW_RESERVES: [u64; 2] = [0, 15];

/// How many operators a large step has.
const MANY_OPERATORS: usize = 1500;

/// How much all searches of a plan look at together: a fifth of a second.
const EFFORT: u64 = 25_000_000;

/// In how many rounds a plan is compared with acting on demand, which may take turns.
const ROUNDS: usize = 3;

fn plan(step: &Step, terms: &Terms) -> Option<Plan> {
    step.check().unwrap_or_else(|error| panic!("{error}"));
    // What is beyond the peak is never used.
    let terms = &Terms { budget_bytes: terms.budget_bytes.min(step.peak_bytes()), ..*terms };
    let gaps = Gaps::new(step);
    let is_free = terms.in_bytes_per_second.is_infinite() && terms.out_bytes_per_second.is_infinite();
    let is_large = step.operators.len() >= MANY_OPERATORS;
    let reserves = match (is_free, is_large) {
        (true, _) => &RESERVES[..1],
        (_, true) => &FEW_RESERVES,
        _ => &RESERVES[..],
    };
    let effort = Effort(EFFORT / reserves.len() as u64);
    let paces = if is_free { &ahead::PACES[..1] } else { &ahead::PACES[..] };
    let plans = reserves.iter().filter_map(|reserve| {
        let budget_bytes = terms.budget_bytes - terms.budget_bytes / 100 * reserve;
        let task = Task { gaps: &gaps, budget_bytes };
        let cover = search::search(task, effort)?;
        paces.iter().map(|pace| Planned::new(step, terms, cover.clone(), *pace)).reduce(better)
    });
    let mut best = plans.reduce(better)?;
    if !is_free && !is_large {
        timed::improve(step, terms, &mut best);
    }
    (is_large || is_worth_it(step, terms, &best.plan)).then_some(best.plan)
}

/// Whether a plan is no worse than acting on demand, which may take turns over several steps.
fn is_worth_it(step: &Step, terms: &Terms, plan: &Plan) -> bool {
    let rounds = simulate(step, terms, &mut NextEvent, 2 * ROUNDS).rounds.split_off(ROUNDS);
    let mean = |sum: f64| sum / cover::as_float(ROUNDS as u64);
    let on_demand = Worth {
        seconds: mean(rounds.iter().map(|round| round.seconds).sum()),
        bytes: mean(rounds.iter().map(|round| cover::as_float(round.bytes())).sum()),
    };
    !on_demand.beats(Worth::of(plan))
}
