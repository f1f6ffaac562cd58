//! The simulator, which alone decides if a plan is legal and computes its cost.

use std::mem;

use super::error::{Illegal, Reason};
use super::{Action, Costs, Saving};

/// Peak and time of a list of actions.
///
/// ```
/// use toma_plan::checkpoint::{Costs, Solver, Stage, simulate};
///
/// let costs = Costs::new(vec![Stage { output_bytes: 1, saved_bytes: 4, ..Stage::default() }; 8])?;
/// let plan = costs.plan(costs.least_bytes(), Solver::Auto)?;
/// let simulated = simulate(&costs, plan.actions())?;
/// assert_eq!(simulated.peak_bytes, plan.peak_bytes());
/// println!("stage {} has the peak", simulated.peak_stage);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Simulated {
    /// The most bytes held at once.
    pub peak_bytes: u64,
    /// The stage whose forward or backward reaches the peak.
    pub peak_stage: usize,
    /// Time of all forward and backward runs, in seconds.
    pub seconds: f64,
    /// Number of runs of each stage.
    pub runs: Vec<usize>,
}

/// Simulates a list of actions, in linear time.
///
/// The input of the first stage takes no bytes; the gradient of the last output is there from the start.
///
/// ```
/// use toma_plan::checkpoint::{Action, Costs, Stage, simulate};
///
/// let costs = Costs::new(vec![Stage { output_bytes: 1, saved_bytes: 4, ..Stage::default() }])?;
/// let save = Action::Save { stage: 0, way: 0, holds_input: true };
/// assert_eq!(simulate(&costs, &[save, Action::Backward(0)])?.peak_bytes, 4);
/// assert!(simulate(&costs, &[Action::Backward(0)]).is_err()); // nothing is saved
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`Illegal`] names the first action that cannot run, or the stage whose backward is missing.
pub fn simulate(costs: &Costs, actions: &[Action]) -> Result<Simulated, Illegal> {
    let mut memory = PlanMemory::of_plan(costs, actions);
    for (index, &action) in actions.iter().enumerate() {
        memory.step(action).map_err(|reason| Illegal { index, action: Some(action), reason })?;
    }
    match memory.left.checked_sub(1) {
        Some(stage) => Err(Illegal { index: actions.len(), action: None, reason: Reason::Unfinished(stage) }),
        None => Ok(memory.outcome()),
    }
}

/// Simulates actions; `None` if they are illegal or need more than `most_bytes`.
pub(super) fn simulate_within(costs: &Costs, actions: &[Action], most_bytes: u64) -> Option<Simulated> {
    let mut memory = PlanMemory::of_plan(costs, actions);
    for &action in actions {
        memory.step(action).ok().filter(|()| memory.peak_bytes <= most_bytes)?;
    }
    (memory.left == 0).then(|| memory.outcome())
}

/// Memory that is held between two actions.
pub(super) struct PlanMemory<'a> {
    costs: &'a Costs,
    /// Bytes of outputs that are held in addition to saved activations.
    held: Vec<Option<u64>>,
    saved: Vec<Option<Saving>>,
    /// Bytes of outputs, held or saved, that nothing but a run of the next stage needs.
    idle: Vec<u64>,
    /// True for stages that run again after all have run once.
    is_repeated: Vec<bool>,
    /// Bytes of saved stages that the peaks of the next first runs include.
    program_bytes: u64,
    /// Bytes of values for later stages, held by saved stages that have dropped their input.
    passing: Vec<u64>,
    runs: Vec<usize>,
    /// Number of stages that have run at least once: all before this one.
    reached: usize,
    /// Number of stages whose backward has not run: all before this one.
    left: usize,
    bytes: u64,
    peak_bytes: u64,
    peak_stage: usize,
    extra_seconds: f64,
}

impl<'a> PlanMemory<'a> {
    pub(super) fn new(costs: &'a Costs) -> Self {
        let count = costs.stages().len();
        let bytes = costs.gradient_bytes(count);
        Self {
            costs,
            held: vec![None; count],
            saved: vec![None; count],
            idle: vec![0; count],
            is_repeated: vec![true; count],
            program_bytes: 0,
            passing: vec![0; count],
            runs: vec![0; count],
            reached: 0,
            left: count,
            bytes,
            peak_bytes: bytes,
            peak_stage: count - 1,
            extra_seconds: 0.0,
        }
    }

    /// Memory for a whole plan, whose repeats are known; for single actions any stage may be repeated.
    fn of_plan(costs: &'a Costs, actions: &[Action]) -> Self {
        let mut memory = Self::new(costs);
        memory.is_repeated.fill(false);
        let later = actions.iter().skip(costs.stages().len());
        for action in later.filter(|action| !matches!(action, Action::Backward(_))) {
            if let Some(is_repeated) = memory.is_repeated.get_mut(action.stage()) {
                *is_repeated = true;
            }
        }
        memory
    }

    pub(super) fn step(&mut self, action: Action) -> Result<(), Reason> {
        match action {
            Action::Backward(stage) => self.backward(stage),
            _ => self.run(action),
        }
    }

    /// True if the output of a stage is held in addition to saved activations.
    pub(super) fn holds(&self, stage: usize) -> bool {
        self.held[stage].is_some()
    }

    fn run(&mut self, action: Action) -> Result<(), Reason> {
        let stage = action.stage();
        self.may_run(stage)?;
        let is_first = stage == self.reached;
        let cost = &self.costs.stages()[stage];
        let program_bytes = self.program_bytes;
        let beyond =
            |[first, later]: [u64; 2]| if is_first { first.saturating_sub(program_bytes) } else { later };
        match action {
            Action::Save { way, .. } => {
                let saving = cost.way(way).ok_or(Reason::NoSuchWay)?;
                let peaks = [saving.saving_peak_bytes, saving.repeat_saving_peak_bytes];
                self.hold(stage, saving.saved_bytes, beyond(peaks));
                self.saved[stage] = Some(saving);
            }
            _ if cost.must_save => return Err(Reason::MustSave),
            _ if self.holds(stage) => return Err(Reason::OutputHeld),
            _ => {
                let peaks = [cost.forward_peak_bytes, cost.repeat_peak_bytes];
                self.hold(stage, cost.output_bytes, beyond(peaks));
                self.held[stage] = Some(cost.output_bytes);
            }
        }
        self.idle[stage] = cost.idle_bytes;
        if action.drops_input() && self.drop_input(stage) && self.saved[stage].is_some() && !cost.must_save {
            self.passing[stage] = cost.passing_bytes;
            self.bytes += cost.passing_bytes;
        }
        self.runs[stage] += 1;
        self.reached += usize::from(is_first);
        if let Some(input) = stage.checked_sub(1).filter(|_| is_first) {
            self.after_first_use(input);
        }
        Ok(())
    }

    /// The first run that takes the output of this stage is over.
    fn after_first_use(&mut self, stage: usize) {
        let cost = &self.costs.stages()[stage];
        // A stage that is saved in part may have dropped the bytes that the program holds.
        if self.saved[stage].is_some_and(|saving| saving.saved_bytes == cost.saved_bytes) {
            self.program_bytes += cost.program_bytes;
        }
        if !self.is_repeated[stage + 1] {
            self.free_idle(stage);
        }
    }

    /// Frees the bytes of a stage's output that backward does not need.
    fn free_idle(&mut self, stage: usize) {
        let held_bytes = match &mut self.saved[stage] {
            Some(saving) => Some(&mut saving.saved_bytes),
            None => self.held[stage].as_mut(),
        };
        let Some(held_bytes) = held_bytes else { return };
        let idle_bytes = mem::take(&mut self.idle[stage]);
        *held_bytes -= idle_bytes;
        self.bytes -= idle_bytes;
    }

    fn may_run(&self, stage: usize) -> Result<(), Reason> {
        let count = self.costs.stages().len();
        if stage >= count {
            return Err(Reason::NoSuchStage { count });
        }
        if stage >= self.left {
            return Err(Reason::AfterBackward);
        }
        if stage > self.reached {
            return Err(Reason::InputMissing);
        }
        if stage < self.reached && self.reached < count {
            return Err(Reason::TooEarly { reached: self.reached });
        }
        if self.saved[stage].is_some() {
            return Err(Reason::Saved);
        }
        self.needs_input(stage)
    }

    /// True if the input of a stage is held or saved.
    pub(super) fn has_input(&self, stage: usize) -> bool {
        stage.checked_sub(1).is_none_or(|input| self.holds(input) || self.saved[input].is_some())
    }

    fn needs_input(&self, stage: usize) -> Result<(), Reason> {
        if self.has_input(stage) { Ok(()) } else { Err(Reason::InputMissing) }
    }

    /// Adds the bytes that a run leaves, and raises the peak by those that it needs beyond them.
    fn hold(&mut self, stage: usize, bytes: u64, beyond: u64) {
        self.bytes += bytes;
        self.see(stage, beyond);
    }

    fn see(&mut self, stage: usize, beyond: u64) {
        if self.bytes + beyond > self.peak_bytes {
            (self.peak_bytes, self.peak_stage) = (self.bytes + beyond, stage);
        }
    }

    /// Drops the input of a stage. Returns false if it was not held.
    fn drop_input(&mut self, stage: usize) -> bool {
        stage.checked_sub(1).is_some_and(|input| self.drop_output(input))
    }

    fn drop_output(&mut self, stage: usize) -> bool {
        let held_bytes = self.held[stage].take();
        self.bytes -= held_bytes.unwrap_or(0);
        held_bytes.is_some()
    }

    fn backward(&mut self, stage: usize) -> Result<(), Reason> {
        if stage >= self.costs.stages().len() {
            return Err(Reason::NoSuchStage { count: self.costs.stages().len() });
        }
        if stage + 1 != self.left {
            return Err(Reason::OutOfOrder { next: self.left.checked_sub(1) });
        }
        if self.saved[stage].is_none() {
            return Err(Reason::NotSaved);
        }
        self.needs_input(stage)?;
        self.free_idle(stage);
        let saving = self.saved[stage].take().ok_or(Reason::NotSaved)?;
        let cost = &self.costs.stages()[stage];
        self.hold(stage, self.costs.gradient_bytes(stage), cost.backward_peak(&saving));
        let passing_bytes = mem::take(&mut self.passing[stage]);
        self.bytes -= self.costs.gradient_bytes(stage + 1) + saving.saved_bytes + passing_bytes;
        self.bytes += cost.variable_gradient_bytes;
        self.drop_output(stage);
        self.drop_input(stage);
        self.extra_seconds += saving.extra_seconds;
        self.left = stage;
        Ok(())
    }

    /// Returns the result. The time is summed up here, so that the order of actions does not change its rounding.
    fn outcome(self) -> Simulated {
        let repeats = self.costs.stages().iter().zip(&self.runs);
        #[expect(clippy::cast_precision_loss, reason = "a stage runs less than 2^52 times")]
        let repeated: f64 = repeats.map(|(stage, &runs)| stage.repeat_seconds * (runs - 1) as f64).sum();
        Simulated {
            peak_bytes: self.peak_bytes,
            peak_stage: self.peak_stage,
            seconds: self.costs.keep_all_seconds() + (repeated + self.extra_seconds),
            runs: self.runs,
        }
    }
}
