//! The eviction that plans a whole step.

mod ahead;
mod cover;
mod fetches;
mod gaps;
mod pages;
mod planned;
mod prices;
mod search;
mod timed;

use cover::CoverTask;
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
/// If all storages that can move are equal in size, always alive and never written, as the weights of equal layers are,
/// the times of all fetches are searched. Up to 9 uses of 5 such storages then wait as little as possible.
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

/// Limit on the operators of the steps on demand with which a plan is compared.
const ON_DEMAND: usize = 600;

fn plan(step: &Step, terms: &Terms) -> Option<Plan> {
    step.check().unwrap_or_else(|error| panic!("{error}"));
    // Bytes beyond the peak are never used.
    let terms = &Terms { budget_bytes: terms.budget_bytes.min(step.peak_bytes()), ..*terms };
    let is_free = terms.in_bytes_per_second.is_infinite() && terms.out_bytes_per_second.is_infinite();
    let is_large = step.operators.len() >= MANY_OPERATORS;
    let mut best = covered(step, terms, is_free, is_large)?;
    if !is_free && !is_large && best.seconds() > best.operator_seconds() {
        let absences = fetches::absences(step, terms);
        let paged = absences.map(|absences| Plan::new(step, terms, "flow", absences));
        best = paged.filter(|paged| Worth::of(paged).beats(Worth::of(&best))).unwrap_or(best);
    }
    (is_large || is_worth_it(step, terms, &best)).then_some(best)
}

/// Returns the best plan that evicts storages in gaps between their uses.
fn covered(step: &Step, terms: &Terms, is_free: bool, is_large: bool) -> Option<Plan> {
    let gaps = Gaps::new(step);
    let reserves = match (is_free, is_large) {
        (true, _) => &RESERVES[..1],
        (_, true) => &FEW_RESERVES,
        _ => &RESERVES[..],
    };
    let effort = Effort(EFFORT / reserves.len() as u64);
    let paces = if is_free { &ahead::PACES[..1] } else { &ahead::PACES[..] };
    let plans = reserves.iter().filter_map(|reserve| {
        let budget_bytes = terms.budget_bytes - terms.budget_bytes / 100 * reserve;
        let task = CoverTask { gaps: &gaps, budget_bytes };
        let cover = search::search(task, effort)?;
        paces.iter().map(|pace| Planned::new(step, terms, cover.clone(), *pace)).reduce(better)
    });
    let mut best = plans.reduce(better)?;
    if !is_free && !is_large {
        timed::improve(step, terms, &mut best);
    }
    Some(best.plan)
}

/// True if a plan is no worse than evictions on demand, which may alternate over several steps.
fn is_worth_it(step: &Step, terms: &Terms, plan: &Plan) -> bool {
    // In 60 short steps, evictions that alternate over up to 6 steps have their exact mean.
    let count = (ON_DEMAND / step.operators.len()).clamp(3, 60);
    let rounds = simulate(step, terms, &mut NextEvent, 2 * count).rounds.split_off(count);
    let mean = |sum: f64| sum / cover::as_float(count as u64);
    let on_demand = Worth {
        seconds: mean(rounds.iter().map(|round| round.seconds).sum()),
        bytes: mean(rounds.iter().map(|round| cover::as_float(round.bytes())).sum()),
    };
    !on_demand.beats(Worth::of(plan))
}
