//! The trade-off between bytes and time, as a curve over all budgets.

use super::bound::Bounds;
use super::candidate::PlanCandidate;
use super::local::{self, Local};
use super::search::{STARTS, Search};
use super::{Costs, fixed};

/// Number of budgets. Each is 3 % above the one before if the least is a seventh of the bytes of saving all.
const BUDGETS: u32 = 64;

/// Limit on the actions that the local search simulates for each budget.
const EFFORT: usize = local::EFFORT / 8;

/// A point on the curve.
///
/// ```
/// use toma_plan::checkpoint::{Costs, Stage};
///
/// let stage = Stage { forward_seconds: 0.1, output_bytes: 1, saved_bytes: 4, ..Stage::default() };
/// let costs = Costs::new(vec![stage.repeated_alike(); 8])?;
/// for point in costs.curve() {
///     println!("{:>4} bytes {:>6.2} s, at best {:.2} s", point.bytes, point.seconds, point.bound_seconds);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Point {
    /// Peak of the plan in bytes.
    pub bytes: u64,
    /// Time of the plan in seconds.
    pub seconds: f64,
    /// A lower bound on the time of any plan within `bytes`.
    pub bound_seconds: f64,
}

pub(super) fn curve(costs: &Costs) -> Vec<Point> {
    let keep_all = PlanCandidate::new(costs, fixed::keep_all(costs));
    let most = keep_all.simulated.peak_bytes;
    let least = PlanCandidate::leanest(costs);
    let bounds = Bounds::new(costs, most);
    let search = Search::new(costs, most, least.clone());
    let budgets: Vec<_> = budgets(least.simulated.peak_bytes, most).collect();
    let rotor: Vec<_> = budgets.iter().map(|&budget_bytes| search.rotor(budget_bytes)).collect();
    let mut best = least;
    let mut points = Vec::new();
    for (index, &budget_bytes) in budgets.iter().enumerate() {
        let leaner = rotor[..index].iter().rev().take(STARTS as usize).cloned().chain([best]);
        let local = Local { costs, budget_bytes, effort: EFFORT };
        best = local.improve(rotor[index].clone(), leaner);
        push(&mut points, &best, &bounds);
    }
    push(&mut points, &keep_all.or(best), &bounds);
    points
}

/// Adds a plan if it is faster than all before it, and removes points that need as many bytes or more.
fn push(points: &mut Vec<Point>, plan: &PlanCandidate, bounds: &Bounds<'_>) {
    let (bytes, seconds) = (plan.simulated.peak_bytes, plan.simulated.seconds);
    if points.last().is_some_and(|last| last.seconds <= seconds) {
        return;
    }
    while points.last().is_some_and(|last| last.bytes >= bytes) {
        points.pop();
    }
    points.push(Point { bytes, seconds, bound_seconds: bounds.seconds(bytes) });
}

/// Budgets from the least to the most, each larger than the one before by the same factor.
fn budgets(least: u64, most: u64) -> impl Iterator<Item = u64> {
    #[expect(clippy::cast_precision_loss, reason = "budgets between the ends are arbitrary")]
    let [low, high] = [least.max(1), most.max(1)].map(|bytes| bytes as f64);
    let between = (1..BUDGETS).map(move |step| low * (high / low).powf(f64::from(step) / f64::from(BUDGETS)));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two u64")]
    let between = between.map(move |bytes| (bytes as u64).clamp(least, most.max(least)));
    std::iter::once(least).chain(between)
}
