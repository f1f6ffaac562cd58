//! Follows a known step while the program repeats it.

use std::collections::HashMap;
use std::sync::Arc;

use toma_plan::residency::{Next, Plan};

use super::known_step::{Ensuing, KnownStep, UsedStorage};

/// Position of a thread in a known step.
#[derive(Debug)]
pub(crate) struct StepPosition {
    pub(crate) known: Arc<KnownStep>,
    /// Index of the operator that comes next or is running.
    pub(crate) at: usize,
    rounds: u64,
    /// True while the operator at `at` is running.
    is_inside: bool,
    /// Id of the storage for each number in the step; `numbers` is the inverse.
    ids: Vec<Option<u64>>,
    numbers: HashMap<u64, usize>,
}

impl StepPosition {
    pub(crate) fn of(known: Arc<KnownStep>) -> Self {
        let ids = vec![None; known.step.storages.len()];
        Self { known, at: 0, rounds: 0, is_inside: false, ids, numbers: HashMap::new() }
    }

    /// Goes back to the first operator of the step.
    pub(crate) fn restart(&mut self) {
        (self.at, self.is_inside) = (0, false);
    }

    pub(crate) fn begins(&mut self, print: u64, found: &[UsedStorage]) -> Option<u64> {
        let known = Arc::clone(&self.known);
        let operator = &known.step.operators[self.at];
        if known.prints[self.at] != print || operator.uses.len() != found.len() {
            return None;
        }
        for (used, one) in operator.uses.iter().zip(found) {
            self.bind(used.storage, one.id);
        }
        self.is_inside = true;
        Some(operator.inside_bytes)
    }

    pub(crate) fn bind(&mut self, number: usize, id: u64) {
        if self.ids[number] == Some(id) {
            return;
        }
        if let Some(before) = self.ids[number].replace(id) {
            self.numbers.remove(&before);
        }
        if let Some(before) = self.numbers.insert(id, number) {
            self.ids[before] = None;
        }
    }

    pub(crate) fn ends(&mut self, made: &[UsedStorage]) -> Ensuing {
        if !std::mem::take(&mut self.is_inside) {
            return Ensuing::default();
        }
        let known = Arc::clone(&self.known);
        for (number, one) in known.made[self.at].iter().zip(made) {
            self.bind(*number, one.id);
        }
        let evicts = self.planned(Plan::leaves_after);
        self.at += 1;
        let is_round = self.at == known.step.operators.len();
        if is_round {
            (self.at, self.rounds) = (0, self.rounds + 1);
        }
        Ensuing { known: None, evicts, is_round }
    }

    /// Number of the running operator, over all rounds.
    pub(crate) fn now(&self) -> u64 {
        self.rounds * self.known.step.operators.len() as u64 + self.at as u64
    }

    /// Number of a storage in the step, and its next event.
    pub(crate) fn next_use(&self, id: u64) -> Option<(u64, Next)> {
        let number = *self.numbers.get(&id)?;
        Some((number as u64, self.known.timeline.next(number, self.now())))
    }

    /// Storages that the plan evicts after the running operator, or fetches when it begins.
    pub(crate) fn planned(&self, which: impl for<'a> Fn(&'a Plan, usize) -> &'a [usize]) -> Vec<u64> {
        let Some(plan) = &self.known.plan else { return Vec::new() };
        which(plan, self.at).iter().filter_map(|number| self.ids[*number]).collect()
    }

    pub(crate) fn number(&self, id: u64) -> Option<usize> {
        self.numbers.get(&id).copied()
    }
}
