//! A local search that improves plans.
//!
//! Rotor repeats segments as a whole. A later run of a stage is unnecessary if the output of an earlier run, or all
//! that it saves, can be held over the gap. Runs that only served the later one are then unnecessary, too.
//!
//! The search starts from rotor's plans for this budget and for smaller ones, which leave bytes unused. It takes the
//! shortcut that saves the most time, as long as there is one. From the best plan it then takes one detour, and
//! shortcuts again.

use super::candidate::PlanCandidate;
use super::{Costs, moves, simulator};

/// Limit on simulated actions. Takes a fifth of a second or less; 50 stages take a tenth of it.
pub(super) const EFFORT: usize = 20_000_000;

#[derive(Debug)]
pub(super) struct Local<'a> {
    pub(super) costs: &'a Costs,
    pub(super) budget_bytes: u64,
    /// Actions that may still be simulated.
    pub(super) effort: usize,
}

impl Local<'_> {
    /// Returns the fastest plan found from the first one and the others, which all fit the budget.
    pub(super) fn improve(
        mut self,
        first: PlanCandidate,
        others: impl Iterator<Item = PlanCandidate>,
    ) -> PlanCandidate {
        let first = self.descend(first);
        let mut best = others.fold(first, |best, other| best.or(self.descend(other)));
        while let Some(better) = self.around(&best) {
            best = better;
        }
        best
    }

    fn descend(&mut self, plan: PlanCandidate) -> PlanCandidate {
        let mut best = plan;
        loop {
            let shorter = moves::shortcuts(self.costs, &best.actions);
            let judged = shorter.map_while(|actions| self.may_go_on().then(|| self.laid(&actions)));
            let fastest = judged.flatten().reduce(PlanCandidate::or);
            match fastest.filter(|fastest| fastest.simulated.seconds < best.simulated.seconds) {
                Some(fastest) => best = fastest,
                None => return best,
            }
        }
    }

    /// Looks for a faster plan by way of a slower one.
    fn around(&mut self, plan: &PlanCandidate) -> Option<PlanCandidate> {
        moves::detours(self.costs, &plan.actions).into_iter().find_map(|detour| {
            self.may_go_on().then_some(())?;
            let slower = self.laid(&detour.taken(&plan.actions))?;
            let found = self.descend(slower);
            (found.simulated.seconds < plan.simulated.seconds).then_some(found)
        })
    }

    fn may_go_on(&self) -> bool {
        self.effort > 0
    }

    /// Lays out these runs. Returns the plan if it is legal and fits.
    fn laid(&mut self, actions: &[super::Action]) -> Option<PlanCandidate> {
        self.effort = self.effort.saturating_sub(actions.len());
        let actions = moves::laid(self.costs.stages().len(), actions);
        let simulated = simulator::simulate_within(self.costs, &actions, self.budget_bytes)?;
        Some(PlanCandidate { actions, simulated })
    }
}
