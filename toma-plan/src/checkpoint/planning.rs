//! Plans of a chain of stages, for one budget and for all.

use super::bound::Bounds;
use super::candidate::Candidate;
use super::error::TooSmall;
use super::search::Search;
use super::{Costs, Plan, Point, Solver, curve, fixed};

impl Costs {
    /// The bytes from which on nothing is repeated: the peak of the plan that saves every stage.
    pub fn keep_all_bytes(&self) -> u64 {
        Candidate::new(self, fixed::keep_all(self)).simulated.peak_bytes
    }

    /// The least budget for which there is a plan of [`Solver::Rotor`] or [`Solver::Auto`].
    pub fn least_bytes(&self) -> u64 {
        Candidate::leanest(self).simulated.peak_bytes
    }

    /// A plan whose peak is within a budget. From [`least_bytes`](Self::least_bytes) on, `Rotor` and `Auto`
    /// have one; where nothing needs to be repeated, they repeat nothing.
    ///
    /// Finding it takes time with the cube of the number of stages: for 50 tens of milliseconds, for 400
    /// seconds.
    ///
    /// # Errors
    ///
    /// [`TooSmall`] when no plan of the solver fits, with the bytes that it needs.
    pub fn plan(&self, budget_bytes: u64, solver: Solver) -> Result<Plan, TooSmall> {
        plan(self, budget_bytes, solver)
    }

    /// The whole trade: plans of [`Solver::Auto`] from the least bytes up to those that repeat nothing, each
    /// with more bytes and less time than the one before.
    pub fn curve(&self) -> Vec<Point> {
        curve::curve(self)
    }
}

/// The plan of a solver.
fn plan(costs: &Costs, budget_bytes: u64, solver: Solver) -> Result<Plan, TooSmall> {
    let keep_all = Candidate::new(costs, fixed::keep_all(costs));
    let found = match solver {
        Solver::SqrtN => Candidate::new(costs, fixed::sqrt_n(costs)),
        Solver::Rotor | Solver::Auto if !keep_all.fits(budget_bytes) => {
            let least = Candidate::leanest(costs);
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
    // Beyond the bytes of keeping all, no bound changes.
    let bounds = Bounds::new(costs, budget_bytes.min(costs.keep_all_bytes()));
    Ok(Plan::found(costs, found, bounds.seconds(budget_bytes), solver))
}
