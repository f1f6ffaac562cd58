//! Actions that a solver found, with their simulation.

use super::error::TooSmall;
use super::{Action, Costs, Simulated, Solver, Stage, fixed, least, simulate};

/// Actions of a solver, with the result of their simulation.
#[derive(Clone, Debug)]
pub(super) struct PlanCandidate {
    pub(super) actions: Vec<Action>,
    pub(super) simulated: Simulated,
}

impl PlanCandidate {
    pub(super) fn new(costs: &Costs, actions: Vec<Action>) -> Self {
        let simulated = simulate(costs, &actions).expect("solvers make legal actions");
        Self { actions, simulated }
    }

    pub(super) fn fits(&self, budget_bytes: u64) -> bool {
        self.simulated.peak_bytes <= budget_bytes
    }

    /// Returns the faster candidate; among equals the one that needs less, then the first.
    pub(super) fn or(self, other: Self) -> Self {
        let [a, b] = [&self.simulated, &other.simulated];
        let order = a.seconds.total_cmp(&b.seconds).then(a.peak_bytes.cmp(&b.peak_bytes));
        if order.is_gt() { other } else { self }
    }

    /// Returns the plan that needs the least bytes.
    ///
    /// It is a plan of the recurrence, unless first runs need more bytes than repeats: then running all
    /// stages twice may need less. Where the recurrence counts too many bytes, saving all may need less.
    pub(super) fn leanest(costs: &Costs) -> Self {
        let (bytes, actions) = least::least(costs);
        let least = Self::new(costs, actions);
        let has_parts = |stage: &Stage| stage.idle_bytes > 0 || stage.program_bytes > 0;
        let counts_more = costs.stages().iter().any(has_parts) && least.fits(bytes);
        debug_assert!(counts_more || bytes == least.simulated.peak_bytes, "what is not rounded is exact");
        let others = [fixed::sqrt_n(costs), fixed::keep_all(costs)].map(|actions| Self::new(costs, actions));
        others.into_iter().fold(least, |least, other| {
            if other.simulated.peak_bytes < least.simulated.peak_bytes { other } else { least }
        })
    }

    pub(super) fn too_small(&self, budget_bytes: u64, solver: Solver) -> TooSmall {
        let Simulated { peak_bytes, peak_stage, .. } = self.simulated;
        TooSmall { budget_bytes, least_bytes: peak_bytes, stage: peak_stage, solver }
    }
}
