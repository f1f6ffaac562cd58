//! The fastest plan of all, for short chains: A* over the sets of held activations, and a plain search of every state.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use toma_plan::checkpoint::{Action, Costs, Stage};

/// Activations that are held at some moment, by bits of stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Moment {
    held: u16,
    saved: u16,
    /// Stages that have run.
    reached: u8,
    /// Stages whose backward has not run.
    left: u8,
}

impl Moment {
    fn start(costs: &Costs) -> Self {
        Self { held: 0, saved: 0, reached: 0, left: u8::try_from(costs.stages().len()).unwrap() }
    }

    fn has(self, stage: usize) -> bool {
        (self.held | self.saved) & (1 << stage) != 0
    }

    fn has_input(self, stage: usize) -> bool {
        stage == 0 || self.has(stage - 1)
    }

    fn without_output(self, stage: usize) -> Self {
        Self { held: self.held & !(1 << stage), ..self }
    }

    fn without_input(self, stage: usize) -> Self {
        if stage == 0 { self } else { self.without_output(stage - 1) }
    }
}

/// A chain with times in whole seconds, where nothing is saved in part.
pub(crate) struct Exact<'a> {
    costs: &'a Costs,
    /// Bytes that stages hold together, by the bits of stages whose output is held, and of stages that are saved.
    outputs: Vec<u64>,
    saved: Vec<u64>,
    budget: u64,
}

/// The least seconds known to each moment, and how it is reached.
type Known = HashMap<Moment, (u64, Option<(Moment, Action)>)>;

/// A move: the next moment, its seconds, and its action.
type Move = (Moment, u64, Option<Action>);

impl<'a> Exact<'a> {
    pub(crate) fn new(costs: &'a Costs) -> Self {
        let outputs = sums(costs, |stage| stage.output_bytes);
        let saved = sums(costs, |stage| stage.saved_bytes);
        Self { costs, outputs, saved, budget: 0 }
    }

    pub(crate) fn within(&mut self, budget: u64) -> &Self {
        self.budget = budget;
        self
    }

    fn stages(&self) -> &'a [Stage] {
        self.costs.stages()
    }

    /// The gradient of the input of a stage.
    fn gradient(&self, stage: usize) -> u64 {
        if stage == 0 { self.costs.input_gradient_bytes() } else { self.stages()[stage - 1].gradient_bytes }
    }

    fn bytes(&self, now: Moment) -> u64 {
        let [held, saved] = [now.held, now.saved].map(usize::from);
        let left = usize::from(now.left);
        let made: u64 = self.stages()[left..].iter().map(|stage| stage.variable_gradient_bytes).sum();
        made + self.gradient(left) + self.outputs[held] + self.saved[saved]
    }

    /// A run that saves nothing, with the input held.
    fn run(&self, now: Moment, index: usize) -> Option<(Moment, u64)> {
        let cost = &self.stages()[index];
        if cost.must_save {
            return None;
        }
        let is_first = index == usize::from(now.reached);
        let beyond = if is_first { cost.forward_peak_bytes } else { cost.repeat_peak_bytes };
        let next = Moment { held: now.held | 1 << index, ..now };
        self.ran(now, index, next, cost.output_bytes + beyond)
    }

    /// A run that saves, with the input held.
    fn save(&self, now: Moment, index: usize) -> Option<(Moment, u64)> {
        let cost = &self.stages()[index];
        let is_first = index == usize::from(now.reached);
        let beyond = if is_first { cost.saving_peak_bytes } else { cost.repeat_saving_peak_bytes };
        let next = Moment { saved: now.saved | 1 << index, ..now };
        self.ran(now, index, next, cost.saved_bytes + beyond)
    }

    fn ran(&self, now: Moment, index: usize, next: Moment, takes: u64) -> Option<(Moment, u64)> {
        let cost = &self.stages()[index];
        if !now.has_input(index) || self.bytes(now) + takes > self.budget {
            return None;
        }
        let is_first = index == usize::from(now.reached);
        let seconds = if is_first { cost.forward_seconds } else { cost.repeat_seconds };
        Some((Moment { reached: now.reached + u8::from(is_first), ..next }, whole(seconds)))
    }

    fn backward(&self, now: Moment) -> Option<(Moment, u64)> {
        let index = usize::from(now.left) - 1;
        let cost = &self.stages()[index];
        let takes = self.gradient(index) + cost.backward_peak_bytes.max(cost.variable_gradient_bytes);
        let may = now.saved & (1 << index) != 0 && now.has_input(index);
        if !may || self.bytes(now) + takes > self.budget {
            return None;
        }
        let next = Moment { saved: now.saved & !(1 << index), left: now.left - 1, ..now };
        Some((next.without_output(index).without_input(index), whole(cost.backward_seconds)))
    }

    /// The stages that may run: the next one in the first sweep, then all that are left and can be recomputed.
    fn runnable(&self, now: Moment) -> impl Iterator<Item = usize> {
        let reached = usize::from(now.reached);
        let is_first_sweep = reached < self.stages().len();
        let stages = if is_first_sweep { reached..reached + 1 } else { 0..now.left.into() };
        stages.filter(move |stage| is_first_sweep || !self.stages()[*stage].must_save)
    }

    /// The moves of plans, in which no run recomputes an activation that is held.
    fn moves(&self, now: Moment) -> Vec<Move> {
        let mut moves = Vec::new();
        for stage in self.runnable(now).filter(|stage| now.saved & (1 << stage) == 0) {
            let run = self.run(now, stage).filter(|_| !now.has(stage));
            if let Some((next, seconds)) = run {
                moves.push((next, seconds, Some(Action::Keep(stage))));
                moves.push((next.without_input(stage), seconds, Some(Action::Drop(stage))));
            }
            if let Some((next, seconds)) = self.save(now, stage) {
                let save = |holds_input| Some(Action::Save { stage, way: 0, holds_input });
                moves.push((next, seconds, save(true)));
                moves.push((next.without_input(stage), seconds, save(false)));
            }
        }
        let backward = Action::Backward(usize::from(now.left) - 1);
        moves.extend(self.backward(now).map(|(next, seconds)| (next, seconds, Some(backward))));
        moves
    }

    /// All possible moves: any run whose input is held, and drops of anything at any time, except of the last output,
    /// which the caller holds.
    fn all_moves(&self, now: Moment) -> Vec<Move> {
        let mut moves = Vec::new();
        for stage in self.runnable(now) {
            let runs = [self.run(now, stage), self.save(now, stage)];
            moves.extend(runs.into_iter().flatten().map(|(next, seconds)| (next, seconds, None)));
        }
        moves.extend(self.backward(now).map(|(next, seconds)| (next, seconds, None)));
        for stage in 0..self.stages().len() {
            if stage + 1 < self.stages().len() {
                moves.push((now.without_output(stage), 0, None));
            }
            if !self.stages()[stage].must_save {
                moves.push((Moment { saved: now.saved & !(1 << stage), ..now }, 0, None));
            }
        }
        moves.retain(|(next, ..)| *next != now);
        moves
    }

    /// A lower bound of the remaining seconds: every backward, and a run of every stage that is not saved.
    fn to_go(&self, now: Moment) -> u64 {
        let left = self.stages()[..now.left.into()].iter().enumerate();
        let of = |(index, cost): (usize, &Stage)| {
            let is_saved = now.saved & (1 << index) != 0;
            let is_first = index >= usize::from(now.reached);
            let run = if is_first { cost.forward_seconds } else { cost.repeat_seconds };
            whole(cost.backward_seconds) + if is_saved { 0 } else { whole(run) }
        };
        left.map(of).sum()
    }

    /// Returns the least seconds, and the actions that take them.
    pub(crate) fn fastest(&self) -> Option<(u64, Vec<Action>)> {
        let mut from = Known::new();
        let start = Moment::start(self.costs);
        from.insert(start, (0, None));
        let mut open = BinaryHeap::from([Reverse((self.to_go(start), start, 0))]);
        while let Some(Reverse((_, now, seconds))) = open.pop() {
            if now.left == 0 {
                return Some((seconds, path(&from, now)));
            }
            if from[&now].0 < seconds {
                continue;
            }
            for (next, more, action) in self.moves(now) {
                let seconds = seconds + more;
                if from.get(&next).is_none_or(|known| seconds < known.0) {
                    from.insert(next, (seconds, action.map(|action| (now, action))));
                    open.push(Reverse((seconds + self.to_go(next), next, seconds)));
                }
            }
        }
        None
    }

    /// Returns the least seconds, by Dijkstra's algorithm over all possible moves.
    pub(crate) fn exhaustive(&self) -> Option<u64> {
        let start = Moment::start(self.costs);
        let mut known = HashMap::from([(start, 0)]);
        let mut open = BinaryHeap::from([Reverse((0, start))]);
        while let Some(Reverse((seconds, now))) = open.pop() {
            if now.left == 0 {
                return Some(seconds);
            }
            if known[&now] < seconds {
                continue;
            }
            for (next, more, _) in self.all_moves(now) {
                let seconds = seconds + more;
                if known.get(&next).is_none_or(|known| seconds < *known) {
                    known.insert(next, seconds);
                    open.push(Reverse((seconds, next)));
                }
            }
        }
        None
    }
}

/// The sum over each set of stages.
fn sums(costs: &Costs, bytes: impl Fn(&Stage) -> u64) -> Vec<u64> {
    let sum = |set: usize| {
        let stages = costs.stages().iter().enumerate();
        stages.filter(|(index, _)| set & (1 << index) != 0).map(|(_, stage)| bytes(stage)).sum()
    };
    (0..1 << costs.stages().len()).map(sum).collect()
}

fn path(from: &Known, end: Moment) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut now = end;
    while let Some((before, action)) = from[&now].1 {
        actions.push(action);
        now = before;
    }
    actions.reverse();
    actions
}

fn whole(seconds: f64) -> u64 {
    assert!(seconds.fract() == 0.0 && seconds >= 0.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and not negative")]
    let seconds = seconds as u64;
    seconds
}
