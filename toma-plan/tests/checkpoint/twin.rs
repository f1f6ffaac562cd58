//! A second simulator, slow and plain: every buffer by its name, added up after each action.

use std::collections::{BTreeMap, BTreeSet};

use toma_plan::checkpoint::{Action, Costs};

/// A buffer that takes bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Buffer {
    Output(usize),
    Saved {
        stage: usize,
    },
    /// The part of an output, or of saved activations, that backward does not need.
    IdleOutput(usize),
    IdleSaved(usize),
    /// A value for later stages, left by a stage that is saved without its input.
    Left {
        stage: usize,
    },
    /// The gradient of a stage's output, counted from 1: 0 is the input of the first stage.
    Gradient(usize),
    /// Gradients of variables that the backward of a stage has left.
    Made(usize),
    /// A temporary that lives during one action only.
    Passing,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Reported {
    pub(crate) peak_bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) runs: Vec<usize>,
}

struct Twin<'a> {
    costs: &'a Costs,
    buffers: BTreeMap<Buffer, u64>,
    ways: BTreeMap<usize, usize>,
    repeated: BTreeSet<usize>,
    reported: Reported,
}

/// Returns peak, seconds and runs of the actions, or the index of the first illegal one.
pub(crate) fn simulate(costs: &Costs, actions: &[Action]) -> Result<Reported, usize> {
    let count = costs.stages().len();
    let last = costs.stages()[count - 1].gradient_bytes;
    let reported = Reported { peak_bytes: last, seconds: 0.0, runs: vec![0; count] };
    let buffers = BTreeMap::from([(Buffer::Gradient(count), last)]);
    let later = actions.iter().skip(count).filter(|action| !matches!(action, Action::Backward(_)));
    let repeated = later.map(|action| action.stage()).collect();
    let mut twin = Twin { costs, buffers, ways: BTreeMap::new(), repeated, reported };
    for (index, action) in actions.iter().enumerate() {
        twin.act(*action).ok_or(index)?;
    }
    if twin.gradient() == 0 { Ok(twin.reported) } else { Err(actions.len()) }
}

impl Twin<'_> {
    /// The stage whose output has a live gradient, counted from 1.
    fn gradient(&self) -> usize {
        let is_gradient =
            |buffer: &Buffer| if let Buffer::Gradient(stage) = buffer { Some(*stage) } else { None };
        self.buffers.keys().find_map(is_gradient).unwrap()
    }

    fn has_output(&self, stage: usize) -> bool {
        [Buffer::Output(stage), Buffer::Saved { stage }]
            .iter()
            .any(|buffer| self.buffers.contains_key(buffer))
    }

    fn act(&mut self, action: Action) -> Option<()> {
        let stage = action.stage();
        let has_input = stage == 0 || self.has_output(stage - 1);
        if stage >= self.gradient() || !has_input {
            return None;
        }
        match action {
            Action::Drop(_) | Action::Keep(_) => self.run(stage, None)?,
            Action::Save { way, .. } => self.run(stage, Some(way))?,
            Action::Backward(_) => self.backward(stage)?,
        }
        let drops = !matches!(action, Action::Keep(_) | Action::Save { holds_input: true, .. });
        let dropped = drops && stage > 0 && self.buffers.remove(&Buffer::Output(stage - 1)).is_some();
        if dropped {
            self.buffers.remove(&Buffer::IdleOutput(stage - 1));
        }
        let is_first_run = self.reported.runs[stage] == 1 && !matches!(action, Action::Backward(_));
        if is_first_run && stage > 0 && !self.repeated.contains(&stage) {
            self.buffers.remove(&Buffer::IdleOutput(stage - 1));
            self.buffers.remove(&Buffer::IdleSaved(stage - 1));
        }
        let cost = &self.costs.stages()[stage];
        if dropped && matches!(action, Action::Save { .. }) && !cost.must_save {
            self.buffers.insert(Buffer::Left { stage }, cost.passing_bytes);
        }
        Some(())
    }

    fn run(&mut self, stage: usize, way: Option<usize>) -> Option<()> {
        let cost = &self.costs.stages()[stage];
        let is_first = self.reported.runs[stage] == 0;
        let all_ran = self.reported.runs.iter().all(|runs| *runs > 0);
        let before_ran = self.reported.runs[..stage].iter().all(|runs| *runs > 0);
        if !(all_ran || is_first && before_ran) || self.buffers.contains_key(&Buffer::Saved { stage }) {
            return None;
        }
        let (buffer, bytes, peaks) = match way {
            None if cost.must_save || self.buffers.contains_key(&Buffer::Output(stage)) => return None,
            None => {
                (Buffer::Output(stage), cost.output_bytes, [cost.forward_peak_bytes, cost.repeat_peak_bytes])
            }
            Some(way) => {
                let saving = cost.way(way)?;
                self.ways.insert(stage, way);
                let peaks = [saving.saving_peak_bytes, saving.repeat_saving_peak_bytes];
                (Buffer::Saved { stage }, saving.saved_bytes, peaks)
            }
        };
        let idle = if way.is_some() { Buffer::IdleSaved(stage) } else { Buffer::IdleOutput(stage) };
        self.buffers.extend([(buffer, bytes - cost.idle_bytes), (idle, cost.idle_bytes)]);
        let [first, later] = peaks;
        self.pass(if is_first { first.saturating_sub(self.of_program(stage)) } else { later });
        self.reported.seconds += if is_first { cost.forward_seconds } else { cost.repeat_seconds };
        self.reported.runs[stage] += 1;
        Some(())
    }

    /// Bytes that the peak of a first run includes, and that saved stages hold.
    fn of_program(&self, stage: usize) -> u64 {
        let before = self.costs.stages().iter().enumerate().take(stage.saturating_sub(1));
        let saved = before.filter(|(index, cost)| {
            let way = self.ways.get(index).and_then(|way| cost.way(*way));
            way.is_some_and(|way| way.saved_bytes == cost.saved_bytes)
        });
        saved.map(|(_, cost)| cost.program_bytes).sum()
    }

    fn backward(&mut self, stage: usize) -> Option<()> {
        let cost = &self.costs.stages()[stage];
        if stage + 1 != self.gradient() || !self.buffers.contains_key(&Buffer::Saved { stage }) {
            return None;
        }
        let input = match stage {
            0 => self.costs.input_gradient_bytes(),
            _ => self.costs.stages()[stage - 1].gradient_bytes,
        };
        let saving = cost.way(self.ways[&stage])?;
        self.buffers.remove(&Buffer::IdleSaved(stage));
        self.buffers.insert(Buffer::Gradient(stage), input);
        self.pass(saving.backward_peak_bytes.max(cost.variable_gradient_bytes));
        self.buffers.insert(Buffer::Made(stage), cost.variable_gradient_bytes);
        self.reported.seconds += cost.backward_seconds + saving.extra_seconds;
        let own = [Buffer::Saved { stage }, Buffer::Left { stage }, Buffer::Output(stage)];
        for buffer in own.into_iter().chain([Buffer::IdleOutput(stage), Buffer::Gradient(stage + 1)]) {
            self.buffers.remove(&buffer);
        }
        Some(())
    }

    fn pass(&mut self, bytes: u64) {
        self.buffers.insert(Buffer::Passing, bytes);
        self.reported.peak_bytes = self.reported.peak_bytes.max(self.buffers.values().sum());
        self.buffers.remove(&Buffer::Passing);
    }
}
