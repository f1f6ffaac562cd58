//! The eviction that plans a whole step.

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

/// Plans a known step: the times at which storages are evicted and fetched.
///
/// On demand it acts as [`NextEvent`]. A plan chooses among the gaps between the uses of a storage, by prices of the
/// room during each operator, and improves its choice one gap at a time. A storage is evicted right after its last use,
/// and fetched as early as there is room, or as late as the link allows. This is done for the whole budget and for
/// smaller ones, which leave room to fetch ahead. The fastest plan is improved by its simulated time. If moving takes
/// no time, the plan that moves the least bytes is taken.
///
/// There is no plan if an operator does not fit, or if [`NextEvent`] alone is better, whose evictions may alternate
/// over several steps. Equal steps and terms have equal plans. A plan of 10,000 operators takes less than a second.
///
/// ```
/// use std::time::Duration;
/// use toma_plan::residency::{Eviction as _, Flow, Operator, Step, Storage, Terms, Use};
///
/// // Two weights that are used in turn, where one fits.
/// let weight = Storage { bytes: 100, birth: None, death: None, stays: false };
/// let operator = |storage| Operator {
///     uses: vec![Use { storage, writes: false }],
///     inside_bytes: 0,
///     duration: Duration::from_secs(1),
/// };
/// let step = Step { storages: vec![weight; 2], operators: vec![operator(0), operator(1)] };
/// let terms = Terms { budget_bytes: 100, in_bytes_per_second: 1000.0, out_bytes_per_second: 1000.0 };
/// if let Some(plan) = Flow::default().plan(&step, &terms) {
///     println!("{plan}");
/// }
/// ```
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

/// Percentages of the budget that are left free for storages that are fetched ahead.
const RESERVES: [u64; 7] = [0, 5, 10, 15, 20, 25, 30];

/// Reserves of large steps, so that plans are found in a second.
const FEW_RESERVES: [u64; 2] = [0, 15];

/// Number of operators from which a step is large.
const MANY_OPERATORS: usize = 1500;

/// Effort of all searches of a plan together: a fifth of a second.
const EFFORT: u64 = 25_000_000;

/// Number of rounds in which a plan is compared with evictions on demand, which may alternate.
const ROUNDS: usize = 3;

fn plan(step: &Step, terms: &Terms) -> Option<Plan> {
    step.check().unwrap_or_else(|error| panic!("{error}"));
    // Bytes beyond the peak are never used.
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

/// True if a plan is no worse than evictions on demand, which may alternate over several steps.
fn is_worth_it(step: &Step, terms: &Terms, plan: &Plan) -> bool {
    let rounds = simulate(step, terms, &mut NextEvent, 2 * ROUNDS).rounds.split_off(ROUNDS);
    let mean = |sum: f64| sum / cover::as_float(ROUNDS as u64);
    let on_demand = Worth {
        seconds: mean(rounds.iter().map(|round| round.seconds).sum()),
        bytes: mean(rounds.iter().map(|round| cover::as_float(round.bytes())).sum()),
    };
    !on_demand.beats(Worth::of(plan))
}
