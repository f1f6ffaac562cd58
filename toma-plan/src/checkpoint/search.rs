//! The state that solvers share: one table for all budgets, and the plans that need no table.

use super::candidate::PlanCandidate;
use super::local::{self, Local};
use super::rotor::Table;
use super::{Costs, fixed};

/// Number of smaller budgets whose plans the local search starts from, too.
pub(super) const STARTS: u32 = 64;

/// Finds the plans of all budgets up to the largest.
#[derive(Debug)]
pub(super) struct Search<'a> {
    costs: &'a Costs,
    table: Table<'a>,
    least: PlanCandidate,
    sqrt_n: PlanCandidate,
}

impl<'a> Search<'a> {
    /// Prepares the search. `least` is the plan that needs the least bytes.
    pub(super) fn new(costs: &'a Costs, largest_bytes: u64, least: PlanCandidate) -> Self {
        let sqrt_n = PlanCandidate::new(costs, fixed::sqrt_n(costs));
        Self { costs, table: Table::new(costs, largest_bytes), least, sqrt_n }
    }

    /// Returns the fastest plan of [`Solver::Rotor`](super::Solver::Rotor) for a budget that the leanest plan fits.
    pub(super) fn rotor(&self, budget_bytes: u64) -> PlanCandidate {
        let plans = self.table.plans(budget_bytes).map(|timed| {
            let plan = PlanCandidate::new(self.costs, timed.actions);
            debug_assert!((plan.simulated.seconds - timed.seconds).abs() <= 1e-9 * timed.seconds);
            debug_assert!(plan.fits(budget_bytes) || timed.is_beyond, "what is rounded up fits");
            plan
        });
        let mut found = plans.filter(|plan| plan.fits(budget_bytes));
        let others = [&self.sqrt_n].into_iter().filter(|plan| plan.fits(budget_bytes)).cloned();
        found.next().into_iter().chain(others).fold(self.least.clone(), |best, plan| plan.or(best))
    }

    /// Returns the fastest plan of [`Solver::Auto`](super::Solver::Auto) for a budget, improved from rotor's plan and
    /// leaner ones.
    pub(super) fn auto(&self, budget_bytes: u64) -> PlanCandidate {
        let [least, most] = [self.least.simulated.peak_bytes, budget_bytes].map(u128::from);
        let leaner = (0..STARTS).filter_map(|start| {
            u64::try_from(least + (most - least) * u128::from(start) / u128::from(STARTS)).ok()
        });
        let leaner = leaner.map(|budget_bytes| self.rotor(budget_bytes));
        let local = Local { costs: self.costs, budget_bytes, effort: local::EFFORT };
        local.improve(self.rotor(budget_bytes), leaner)
    }
}
