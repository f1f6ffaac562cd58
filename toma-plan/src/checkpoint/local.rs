//! A search in the neighborhood of plans.
//!
//! Rotor repeats segments as a whole. A later run of a stage need not be where the output of an earlier one,
//! or all that it saves, can be held over the gap. Then runs that only served it need not be either.
//!
//! The search starts from plans that rotor has for this budget and for smaller ones, which leave room. It
//! takes the shortcut that saves most, as long as there is one. From the best of all it then takes one detour,
//! and shortcuts again.

use super::candidate::Candidate;
use super::{Costs, moves, simulator};

/// How many actions are simulated at most. Takes a fifth of a second or less; 50 stages take a tenth of it.
pub(super) const EFFORT: usize = 20_000_000;

#[derive(Debug)]
pub(super) struct Local<'a> {
    pub(super) costs: &'a Costs,
    pub(super) budget_bytes: u64,
    /// Actions that may still be simulated.
    pub(super) effort: usize,
}

impl Local<'_> {
    /// The fastest plan that is found from the first one and the others, which all fit.
    pub(super) fn improve(mut self, first: Candidate, others: impl Iterator<Item = Candidate>) -> Candidate {
        let first = self.descend(first);
        let mut best = others.fold(first, |best, other| best.or(self.descend(other)));
        while let Some(better) = self.around(&best) {
            best = better;
        }
        best
    }

    fn descend(&mut self, plan: Candidate) -> Candidate {
        let mut best = plan;
        loop {
            let shorter = moves::shortcuts(self.costs, &best.actions);
            let judged = shorter.map_while(|actions| self.may_go_on().then(|| self.laid(&actions)));
            let fastest = judged.flatten().reduce(Candidate::or);
            match fastest.filter(|fastest| fastest.simulated.seconds < best.simulated.seconds) {
                Some(fastest) => best = fastest,
                None => return best,
            }
        }
    }

    /// A faster plan by way of a slower one.
    fn around(&mut self, plan: &Candidate) -> Option<Candidate> {
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

    /// The plan of these runs, if it is legal and fits.
    fn laid(&mut self, actions: &[super::Action]) -> Option<Candidate> {
        self.effort = self.effort.saturating_sub(actions.len());
        let actions = moves::laid(self.costs.stages().len(), actions);
        let simulated = simulator::simulate_within(self.costs, &actions, self.budget_bytes)?;
        Some(Candidate { actions, simulated })
    }
}
