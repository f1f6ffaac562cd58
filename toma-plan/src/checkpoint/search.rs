//! What the solvers share: one table for all budgets, and plans that are there without one.

use super::bound::Bounds;
use super::error::TooSmall;
use super::local::{self, Local};
use super::rotor::Table;
use super::{Action, Costs, Plan, Simulated, Solver, fixed, least, simulate};

/// Smaller budgets whose plans the local search starts from, too.
pub(super) const STARTS: u32 = 64;

/// Actions of a solver, and what the simulator says of them.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) actions: Vec<Action>,
    pub(super) simulated: Simulated,
}

impl Candidate {
    pub(super) fn new(costs: &Costs, actions: Vec<Action>) -> Self {
        let simulated = simulate(costs, &actions).expect("solvers make legal actions");
        Self { actions, simulated }
    }

    pub(super) fn fits(&self, budget_bytes: u64) -> bool {
        self.simulated.peak_bytes <= budget_bytes
    }

    /// The faster one; of equals the one that needs less, then the first.
    pub(super) fn or(self, other: Self) -> Self {
        let [a, b] = [&self.simulated, &other.simulated];
        let order = a.seconds.total_cmp(&b.seconds).then(a.peak_bytes.cmp(&b.peak_bytes));
        if order.is_gt() { other } else { self }
    }

    /// The plan that needs the least bytes.
    ///
    /// That is one of the recurrence, but where first runs need more than repeats: there, running all twice
    /// may need less.
    pub(super) fn leanest(costs: &Costs) -> Self {
        let (bytes, actions) = least::least(costs);
        let [least, sqrt_n] = [actions, fixed::sqrt_n(costs)].map(|actions| Self::new(costs, actions));
        debug_assert_eq!(bytes, least.simulated.peak_bytes, "what is not rounded is exact");
        if sqrt_n.simulated.peak_bytes < least.simulated.peak_bytes { sqrt_n } else { least }
    }

    fn too_small(&self, budget_bytes: u64, solver: Solver) -> TooSmall {
        let Simulated { peak_bytes, peak_stage, .. } = self.simulated;
        TooSmall { budget_bytes, least_bytes: peak_bytes, stage: peak_stage, solver }
    }
}

/// Finds the plans of all budgets up to the largest.
#[derive(Debug)]
pub(super) struct Search<'a> {
    costs: &'a Costs,
    table: Table<'a>,
    least: Candidate,
    sqrt_n: Candidate,
}

impl<'a> Search<'a> {
    /// `least` is the leanest plan.
    pub(super) fn new(costs: &'a Costs, largest_bytes: u64, least: Candidate) -> Self {
        let sqrt_n = Candidate::new(costs, fixed::sqrt_n(costs));
        Self { costs, table: Table::new(costs, largest_bytes), least, sqrt_n }
    }

    /// The fastest plan of [`Solver::Rotor`] in a budget that the leanest plan fits.
    pub(super) fn rotor(&self, budget_bytes: u64) -> Candidate {
        let plans = self.table.plans(budget_bytes).map(|timed| {
            let plan = Candidate::new(self.costs, timed.actions);
            debug_assert!((plan.simulated.seconds - timed.seconds).abs() <= 1e-9 * timed.seconds);
            debug_assert!(plan.fits(budget_bytes) || timed.is_beyond, "what is rounded up fits");
            plan
        });
        let mut found = plans.filter(|plan| plan.fits(budget_bytes));
        let others = [&self.sqrt_n].into_iter().filter(|plan| plan.fits(budget_bytes)).cloned();
        found.next().into_iter().chain(others).fold(self.least.clone(), |best, plan| plan.or(best))
    }

    /// The fastest plan of [`Solver::Auto`] in a budget, from that of rotor and from leaner ones.
    pub(super) fn auto(&self, budget_bytes: u64) -> Candidate {
        let [least, most] = [self.least.simulated.peak_bytes, budget_bytes].map(u128::from);
        let leaner = (0..STARTS).filter_map(|start| {
            u64::try_from(least + (most - least) * u128::from(start) / u128::from(STARTS)).ok()
        });
        let leaner = leaner.map(|budget_bytes| self.rotor(budget_bytes));
        let local = Local { costs: self.costs, budget_bytes, effort: local::EFFORT };
        local.improve(self.rotor(budget_bytes), leaner)
    }
}

/// The plan of a solver.
pub(super) fn plan(costs: &Costs, budget_bytes: u64, solver: Solver) -> Result<Plan, TooSmall> {
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
