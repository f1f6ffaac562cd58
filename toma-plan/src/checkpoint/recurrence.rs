//! The recurrence of rotor, which the table of times and that of least bytes share.
//!
//! A state `(s, t)` is the remaining work of stages `s..=t`: their forward, with the input of `s` held, and
//! their backward, with the gradient of the output of `t` there, and those of variables that backward has left.
//! With the last stage as `t` the runs are the first ones, in all other states they are repeats. The bytes of a
//! state include these gradients, but neither the input of `s` nor memory held for stages outside of the state.
//!
//! Stages that cannot be repeated are saved by their first run and stay saved. In states of repeats their
//! bytes count towards the state, and runs begin behind the last of these stages.
//!
//! A state does not know if a stage after it is repeated, or which stages before it are saved. So it counts
//! [`idle_bytes`](Stage::idle_bytes) up to the backward and [`program_bytes`](Stage::program_bytes) twice, where the
//! simulator counts less.

use super::costs::ways;
use super::{Action, Costs, Stage};

/// The first decision in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Saves the first stage; the rest follows, then the backward of the first stage.
    Save(usize),
    /// Runs all stages before this one without saving them; this stage and the rest follow, then the state of
    /// the stages before.
    Split(usize),
}

/// A choice with its own costs, in addition to those of the states that follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Branch {
    pub(super) choice: Choice,
    pub(super) seconds: f64,
    /// The peak of the choice's own runs and backward.
    pub(super) needs_bytes: u64,
    /// Bytes held during the state that follows.
    pub(super) held_bytes: u64,
}

#[derive(Debug)]
pub(super) struct Recurrence<'a> {
    costs: &'a Costs,
    /// Bytes that the stages before each one save because they cannot be repeated.
    always: Vec<u64>,
}

impl<'a> Recurrence<'a> {
    pub(super) fn new(costs: &'a Costs) -> Self {
        let mut always = vec![0];
        for stage in costs.stages() {
            let bytes = if stage.must_save { stage.saved_bytes } else { 0 };
            always.push(always[always.len() - 1] + bytes);
        }
        Self { costs, always }
    }

    pub(super) fn count(&self) -> usize {
        self.costs.stages().len()
    }

    fn stage(&self, index: usize) -> &'a Stage {
        &self.costs.stages()[index]
    }

    fn is_first_run(&self, last: usize) -> bool {
        last + 1 == self.count()
    }

    /// Bytes of the gradient of a stage's input, and of those of variables, before the stage before it has its backward.
    fn gradients(&self, stage: usize) -> u64 {
        self.costs.gradient_bytes(stage) + self.costs.made_bytes(stage)
    }

    /// Bytes that the stages of a state of repeats hold in any case.
    fn always(&self, start: usize, last: usize) -> u64 {
        if self.is_first_run(last) { 0 } else { self.always[last + 1] - self.always[start] }
    }

    /// The ways to save the first stage.
    pub(super) fn saves(&self, start: usize, last: usize) -> impl Iterator<Item = Branch> {
        let stage = self.stage(start);
        let (is_first, is_saved) = (self.is_first_run(last), stage.must_save && !self.is_first_run(last));
        let run_bytes = self.gradients(last + 1) + self.always(start, last);
        let gradients = self.gradients(start + 1) + self.costs.gradient_bytes(start);
        let run_seconds = match is_saved {
            true => 0.0,
            false if is_first => stage.forward_seconds,
            false => stage.repeat_seconds,
        };
        ways(stage).enumerate().map(move |(way, saving)| {
            let beyond = if is_first { saving.saving_peak_bytes } else { saving.repeat_saving_peak_bytes };
            let run = if is_saved { 0 } else { run_bytes + saving.saved_bytes + beyond };
            Branch {
                choice: Choice::Save(way),
                seconds: run_seconds + stage.backward_seconds + saving.extra_seconds,
                needs_bytes: run.max(gradients + stage.needed_bytes(&saving) + stage.backward_peak(&saving)),
                held_bytes: saving.saved_bytes,
            }
        })
    }

    /// The stages at which the state may be split.
    pub(super) fn splits(&self, start: usize, last: usize) -> impl Iterator<Item = Branch> {
        let is_first = self.is_first_run(last);
        let base = self.gradients(last + 1) + self.always(start, last);
        // Bytes saved so far by stages that cannot be repeated, and those of the input that the next run drops.
        let (mut always, mut input) = (0, 0);
        let (mut seconds, mut needs_bytes) = (0.0, 0);
        (start..last).map(move |index| {
            let stage = self.stage(index);
            if is_first {
                needs_bytes = needs_bytes.max(base + always + input + first_run_bytes(stage));
                seconds += stage.forward_seconds;
            } else if stage.must_save {
                (seconds, needs_bytes) = (0.0, 0);
            } else {
                let run = stage.output_bytes + stage.repeat_peak_bytes;
                needs_bytes = needs_bytes.max(base + input + run);
                seconds += stage.repeat_seconds;
            }
            always += if stage.must_save { stage.saved_bytes } else { 0 };
            input = if stage.must_save { 0 } else { stage.output_bytes };
            Branch { choice: Choice::Split(index + 1), seconds, needs_bytes, held_bytes: always + input }
        })
    }

    /// Returns the actions of the whole chain. In each state, `decide` gets the bytes or slots that are left,
    /// and returns its choice and the amount that is left for the state that follows.
    pub(super) fn actions<M: Copy>(
        &self,
        all: M,
        mut decide: impl FnMut(usize, usize, M) -> (Choice, M),
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut todo = vec![Todo::State { start: 0, last: self.count() - 1, left: all }];
        while let Some(next) = todo.pop() {
            let (start, last, left) = match next {
                Todo::State { start, last, left } => (start, last, left),
                Todo::Backward(stage) => {
                    actions.push(Action::Backward(stage));
                    continue;
                }
            };
            let (choice, rest) = decide(start, last, left);
            match choice {
                Choice::Save(way) => {
                    actions.extend(self.save(start, last, way));
                    todo.push(Todo::Backward(start));
                    if start < last {
                        todo.push(Todo::State { start: start + 1, last, left: rest });
                    }
                }
                Choice::Split(at) => {
                    self.run_before(at, start, last, &mut actions);
                    todo.push(Todo::State { start, last: at - 1, left });
                    todo.push(Todo::State { start: at, last, left: rest });
                }
            }
        }
        actions
    }

    fn save(&self, stage: usize, last: usize, way: usize) -> Option<Action> {
        let is_saved = self.stage(stage).must_save && !self.is_first_run(last);
        (!is_saved).then_some(Action::Save { stage, way, holds_input: true })
    }

    fn run_before(&self, at: usize, start: usize, last: usize, actions: &mut Vec<Action>) {
        let saved = (start..at).rev().find(|index| self.stage(*index).must_save);
        let begin = if self.is_first_run(last) { start } else { saved.map_or(start, |index| index + 1) };
        actions.extend((begin..at).map(|index| match self.stage(index).must_save {
            true => Action::Save { stage: index, way: 0, holds_input: index == begin },
            false if index == begin => Action::Keep(index),
            false => Action::Drop(index),
        }));
    }
}

/// Bytes that a first run needs which saves nothing unless it must.
fn first_run_bytes(stage: &Stage) -> u64 {
    if stage.must_save {
        stage.saved_bytes + stage.saving_peak_bytes
    } else {
        stage.output_bytes + stage.forward_peak_bytes
    }
}

enum Todo<M> {
    State { start: usize, last: usize, left: M },
    Backward(usize),
}
