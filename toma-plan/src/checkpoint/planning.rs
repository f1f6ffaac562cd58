//! Plans of a chain of stages, for one budget and for all.

use super::bound::Bounds;
use super::candidate::PlanCandidate;
use super::error::TooSmall;
use super::search::Search;
use super::{Costs, Plan, Point, Solver, curve, fixed};

impl Costs {
    /// Returns the bytes from which on nothing is repeated: the peak of the plan that saves every stage.
    pub fn keep_all_bytes(&self) -> u64 {
        PlanCandidate::new(self, fixed::keep_all(self)).simulated.peak_bytes
    }

    /// Returns the least budget for which [`Solver::Rotor`] and [`Solver::Auto`] have a plan.
    pub fn least_bytes(&self) -> u64 {
        PlanCandidate::leanest(self).simulated.peak_bytes
    }

    /// Finds a plan whose peak is within a budget. From [`least_bytes`](Self::least_bytes) on, `Rotor` and
    /// `Auto` have one; if the budget allows it, they repeat nothing.
    ///
    /// The time is cubic in the number of stages: tens of milliseconds for 50, seconds for 400.
    ///
    /// # Errors
    ///
    /// [`TooSmall`] if no plan of the solver fits, with the bytes that it needs.
    pub fn plan(&self, budget_bytes: u64, solver: Solver) -> Result<Plan, TooSmall> {
        plan(self, budget_bytes, solver)
    }

    /// Returns the whole trade-off: plans of [`Solver::Auto`] from the least bytes up to those that repeat
    /// nothing, each with more bytes and less time than the one before.
    pub fn curve(&self) -> Vec<Point> {
        curve::curve(self)
    }
}

fn plan(costs: &Costs, budget_bytes: u64, solver: Solver) -> Result<Plan, TooSmall> {
    let keep_all = PlanCandidate::new(costs, fixed::keep_all(costs));
    let found = match solver {
        Solver::SqrtN => PlanCandidate::new(costs, fixed::sqrt_n(costs)),
        Solver::Rotor | Solver::Auto if !keep_all.fits(budget_bytes) => {
            let least = PlanCandidate::leanest(costs);
            if !least.fits(budget_bytes) {
                return Err(least.too_small(budget_bytes, solver));
            }
            let search = Search::new(costs, budget_bytes, least);
            if solver == Solver::Auto { search.auto(budget_bytes) } else { search.rotor(budget_bytes) }
        }
        _ => keep_all,
    };
    if !found.fits(budget_bytes) {
        return Err(found.too_small(budget_bytes, solver));
    }
    // Beyond the bytes of saving all, the bounds do not change.
    let bounds = Bounds::new(costs, budget_bytes.min(costs.keep_all_bytes()));
    Ok(Plan::found(costs, found, bounds.seconds(budget_bytes), solver))
}
