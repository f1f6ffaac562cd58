//! Adapts plans to first runs that differ from the planned ones.

use super::error::Reason;
use super::simulator::PlanMemory;
use super::{Action, Costs};

/// Returns `planned` with `first`, which has already run, in place of its first actions. Legal if `first` is.
pub(super) fn grafted(costs: &Costs, first: &[Action], planned: &[Action]) -> Vec<Action> {
    let mut graft = Graft { memory: PlanMemory::new(costs), actions: Vec::new() };
    for &action in first.iter().chain(planned.get(first.len()..).unwrap_or_default()) {
        graft.take(action);
    }
    graft.actions
}

struct Graft<'a> {
    memory: PlanMemory<'a>,
    actions: Vec<Action>,
}

impl Graft<'_> {
    /// Adds an action. Skips a run whose result is held, and inserts runs that make missing inputs.
    fn take(&mut self, action: Action) {
        let stage = action.stage();
        match self.memory.step(action) {
            Err(Reason::Saved | Reason::OutputHeld) => {}
            Err(Reason::InputMissing) if self.make_input(stage) => self.take(action),
            Err(Reason::NotSaved) if self.save(stage) => self.take(action),
            Ok(()) | Err(_) => self.actions.push(action),
        }
    }

    fn save(&mut self, stage: usize) -> bool {
        (self.memory.has_input(stage) || self.make_input(stage)) && self.add(Action::save(stage))
    }

    /// Recomputes an input from the nearest stage whose input is held. Outputs in between are dropped once used.
    fn make_input(&mut self, stage: usize) -> bool {
        let Some(start) = (0..stage).rev().find(|&start| self.memory.has_input(start)) else { return false };
        self.add(Action::Keep(start)) && (start + 1..stage).all(|stage| self.add(Action::Drop(stage)))
    }

    fn add(&mut self, action: Action) -> bool {
        let is_legal = self.memory.step(action).is_ok();
        self.actions.extend(is_legal.then_some(action));
        is_legal
    }
}
