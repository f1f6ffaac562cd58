//! The fastest plan of all, for short chains: A* over what is held, and every state without any cleverness.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use toma_plan::checkpoint::{Action, Costs, Stage};

/// What is held at some moment, by bits of stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct State {
    held: u16,
    saved: u16,
    /// Stages that have run.
    reached: u8,
    /// Stages whose backward has not.
    left: u8,
}

impl State {
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
    /// What the stages hold together, by the bits of those whose output is held, and of those that are saved.
    outputs: Vec<u64>,
    saved: Vec<u64>,
    budget: u64,
}

/// A move: where it leads, what it takes, and what it is.
type Move = (State, u64, Option<Action>);

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

    fn bytes(&self, state: State) -> u64 {
        let [held, saved] = [state.held, state.saved].map(usize::from);
        self.gradient(state.left.into()) + self.outputs[held] + self.saved[saved]
    }

    /// A run that saves nothing, with the input held.
    fn run(&self, state: State, index: usize) -> Option<(State, u64)> {
        let stage = &self.stages()[index];
        if stage.must_save {
            return None;
        }
        let is_first = index == usize::from(state.reached);
        let beyond = if is_first { stage.forward_peak_bytes } else { stage.repeat_peak_bytes };
        let next = State { held: state.held | 1 << index, ..state };
        self.ran(state, index, next, stage.output_bytes + beyond)
    }

    /// A run that saves, with the input held.
    fn save(&self, state: State, index: usize) -> Option<(State, u64)> {
        let stage = &self.stages()[index];
        let is_first = index == usize::from(state.reached);
        let beyond = if is_first { stage.saving_peak_bytes } else { stage.repeat_saving_peak_bytes };
        let next = State { saved: state.saved | 1 << index, ..state };
        self.ran(state, index, next, stage.saved_bytes + beyond)
    }

    fn ran(&self, state: State, index: usize, next: State, takes: u64) -> Option<(State, u64)> {
        let stage = &self.stages()[index];
        if !state.has_input(index) || self.bytes(state) + takes > self.budget {
            return None;
        }
        let is_first = index == usize::from(state.reached);
        let seconds = if is_first { stage.forward_seconds } else { stage.repeat_seconds };
        Some((State { reached: state.reached + u8::from(is_first), ..next }, whole(seconds)))
    }

    fn backward(&self, state: State) -> Option<(State, u64)> {
        let index = usize::from(state.left) - 1;
        let stage = &self.stages()[index];
        let takes = self.gradient(index) + stage.backward_peak_bytes;
        let may = state.saved & (1 << index) != 0 && state.has_input(index);
        if !may || self.bytes(state) + takes > self.budget {
            return None;
        }
        let next = State { saved: state.saved & !(1 << index), left: state.left - 1, ..state };
        Some((next.without_output(index).without_input(index), whole(stage.backward_seconds)))
    }

    /// The stages that may run: the next one in the first sweep, then all that are left and can be repeated.
    fn runnable(&self, state: State) -> impl Iterator<Item = usize> {
        let reached = usize::from(state.reached);
        let is_first_sweep = reached < self.stages().len();
        let stages = if is_first_sweep { reached..reached + 1 } else { 0..state.left.into() };
        stages.filter(move |stage| is_first_sweep || !self.stages()[*stage].must_save)
    }

    /// The moves of plans, where no run repeats what is there.
    fn moves(&self, state: State) -> Vec<Move> {
        let mut moves = Vec::new();
        for stage in self.runnable(state).filter(|stage| state.saved & (1 << stage) == 0) {
            let run = self.run(state, stage).filter(|_| !state.has(stage));
            if let Some((next, seconds)) = run {
                moves.push((next, seconds, Some(Action::Keep(stage))));
                moves.push((next.without_input(stage), seconds, Some(Action::Drop(stage))));
            }
            if let Some((next, seconds)) = self.save(state, stage) {
                let save = |holds_input| Some(Action::Save { stage, way: 0, holds_input });
                moves.push((next, seconds, save(true)));
                moves.push((next.without_input(stage), seconds, save(false)));
            }
        }
        let backward = Action::Backward(usize::from(state.left) - 1);
        moves.extend(self.backward(state).map(|(next, seconds)| (next, seconds, Some(backward))));
        moves
    }

    /// Everything that is possible: any run whose input is there, and anything is dropped at any time, but for
    /// the last output, which others hold.
    fn all_moves(&self, state: State) -> Vec<Move> {
        let mut moves = Vec::new();
        for stage in self.runnable(state) {
            let runs = [self.run(state, stage), self.save(state, stage)];
            moves.extend(runs.into_iter().flatten().map(|(next, seconds)| (next, seconds, None)));
        }
        moves.extend(self.backward(state).map(|(next, seconds)| (next, seconds, None)));
        for stage in 0..self.stages().len() {
            if stage + 1 < self.stages().len() {
                moves.push((state.without_output(stage), 0, None));
            }
            if !self.stages()[stage].must_save {
                moves.push((State { saved: state.saved & !(1 << stage), ..state }, 0, None));
            }
        }
        moves.retain(|(next, ..)| *next != state);
        moves
    }

    /// What is left to do at the least: every backward, and a run of every stage that is not saved.
    fn to_go(&self, state: State) -> u64 {
        let left = self.stages()[..state.left.into()].iter().enumerate();
        let of = |(index, stage): (usize, &Stage)| {
            let is_saved = state.saved & (1 << index) != 0;
            let is_first = index >= usize::from(state.reached);
            let run = if is_first { stage.forward_seconds } else { stage.repeat_seconds };
            whole(stage.backward_seconds) + if is_saved { 0 } else { whole(run) }
        };
        left.map(of).sum()
    }

    /// The least seconds, and the actions that take them.
    pub(crate) fn fastest(&self) -> Option<(u64, Vec<Action>)> {
        let mut from: HashMap<State, (u64, Option<(State, Action)>)> = HashMap::new();
        let start = State::start(self.costs);
        from.insert(start, (0, None));
        let mut open = BinaryHeap::from([Reverse((self.to_go(start), start, 0))]);
        while let Some(Reverse((_, state, seconds))) = open.pop() {
            if state.left == 0 {
                return Some((seconds, path(&from, state)));
            }
            if from[&state].0 < seconds {
                continue;
            }
            for (next, more, action) in self.moves(state) {
                let seconds = seconds + more;
                if from.get(&next).is_none_or(|known| seconds < known.0) {
                    from.insert(next, (seconds, action.map(|action| (state, action))));
                    open.push(Reverse((seconds + self.to_go(next), next, seconds)));
                }
            }
        }
        None
    }

    /// The least seconds, by Dijkstra's algorithm over everything that is possible.
    pub(crate) fn exhaustive(&self) -> Option<u64> {
        let start = State::start(self.costs);
        let mut known = HashMap::from([(start, 0)]);
        let mut open = BinaryHeap::from([Reverse((0, start))]);
        while let Some(Reverse((seconds, state))) = open.pop() {
            if state.left == 0 {
                return Some(seconds);
            }
            if known[&state] < seconds {
                continue;
            }
            for (next, more, _) in self.all_moves(state) {
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

fn path(from: &HashMap<State, (u64, Option<(State, Action)>)>, end: State) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut state = end;
    while let Some((before, action)) = from[&state].1 {
        actions.push(action);
        state = before;
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
