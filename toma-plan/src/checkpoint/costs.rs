//! The costs of a chain of stages, checked.

use super::error::InvalidCosts;
use super::{Saving, Stage};

/// Costs of the stages of a region, in the order in which they run.
///
/// Each stage takes the output of the one before. The bytes of all stages add up to at most [`u64::MAX`], and
/// all times are finite.
///
/// ```
/// use toma_plan::checkpoint::{Costs, Stage};
///
/// let stage = Stage { forward_seconds: 0.1, output_bytes: 1, saved_bytes: 4, ..Stage::default() };
/// let costs = Costs::new(vec![stage.repeated_alike(); 8])?;
/// assert_eq!((costs.stages().len(), costs.keep_all_bytes()), (8, 32));
/// assert!(costs.least_bytes() < 32);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    stages: Vec<Stage>,
    input_gradient_bytes: u64,
    /// Bytes of variables' gradients from the backwards of each stage and all later ones.
    made: Vec<u64>,
}

impl Costs {
    /// Costs of stages, where the input of the first one has no gradient.
    ///
    /// # Errors
    ///
    /// [`InvalidCosts`] names the stage and the invalid value.
    pub fn new(stages: Vec<Stage>) -> Result<Self, InvalidCosts> {
        Self { stages, input_gradient_bytes: 0, made: Vec::new() }.checked()
    }

    /// Sets the bytes of the gradient of the first stage's input.
    ///
    /// # Errors
    ///
    /// [`InvalidCosts::TooLarge`] if all bytes add up to more than [`u64::MAX`].
    pub fn with_input_gradient(mut self, bytes: u64) -> Result<Self, InvalidCosts> {
        self.input_gradient_bytes = bytes;
        self.checked()
    }

    /// Returns the stages, at least one.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// Returns the bytes of the gradient of the first stage's input.
    pub fn input_gradient_bytes(&self) -> u64 {
        self.input_gradient_bytes
    }

    /// Returns the time of a run that repeats nothing, in seconds.
    pub fn keep_all_seconds(&self) -> f64 {
        self.stages.iter().map(|stage| stage.forward_seconds + stage.backward_seconds).sum()
    }

    /// Bytes of the gradient of a stage's input. The number of stages as index stands for the last output.
    pub(super) fn gradient_bytes(&self, stage: usize) -> u64 {
        match stage.checked_sub(1) {
            Some(before) => self.stages[before].gradient_bytes,
            None => self.input_gradient_bytes,
        }
    }

    /// Bytes of gradients of variables once the backwards from a stage on have run.
    pub(super) fn made_bytes(&self, stage: usize) -> u64 {
        self.made[stage]
    }

    /// Returns the costs of a backward whose variables have their gradients already, so that it allocates none.
    #[must_use]
    pub fn without_variable_gradients(&self) -> Self {
        let mut costs = self.clone();
        costs.made.fill(0);
        for stage in &mut costs.stages {
            stage.variable_gradient_bytes = 0;
        }
        costs
    }

    fn checked(mut self) -> Result<Self, InvalidCosts> {
        if self.stages.is_empty() {
            return Err(InvalidCosts::NoStages);
        }
        for (index, stage) in self.stages.iter().enumerate() {
            check_seconds(index, stage)?;
            check_bytes(index, stage)?;
        }
        let count = self.stages.len();
        self.total_bytes().ok_or(InvalidCosts::TooLarge { count })?;
        self.made = vec![0; count + 1];
        for (index, stage) in self.stages.iter().enumerate().rev() {
            self.made[index] = self.made[index + 1] + stage.variable_gradient_bytes;
        }
        if self.longest_seconds().is_finite() { Ok(self) } else { Err(InvalidCosts::TooLong { count }) }
    }

    /// An upper bound on the bytes that any list of actions can hold; `None` if it overflows.
    fn total_bytes(&self) -> Option<u64> {
        let of_stages = self.stages.iter().map(total_bytes);
        of_stages
            .chain([Some(self.input_gradient_bytes)])
            .try_fold(0_u64, |sum, bytes| sum.checked_add(bytes?))
    }

    /// An upper bound on the time of any plan: no solver repeats a stage more often than there are stages.
    fn longest_seconds(&self) -> f64 {
        let extra = |stage: &Stage| stage.savings.iter().map(|saving| saving.extra_seconds).sum::<f64>();
        let once = self.stages.iter().map(|stage| stage.repeat_seconds + extra(stage)).sum::<f64>();
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let times = self.stages.len() as f64;
        self.keep_all_seconds() + once * times
    }
}

fn check_seconds(index: usize, stage: &Stage) -> Result<(), InvalidCosts> {
    let named = [
        ("forward_seconds", stage.forward_seconds),
        ("repeat_seconds", stage.repeat_seconds),
        ("backward_seconds", stage.backward_seconds),
    ];
    let extra = stage.savings.iter().map(|saving| ("extra_seconds", saving.extra_seconds));
    match named.into_iter().chain(extra).find(|(_, seconds)| !(seconds.is_finite() && *seconds >= 0.0)) {
        Some((name, seconds)) => Err(InvalidCosts::Seconds { stage: index, name, seconds }),
        None => Ok(()),
    }
}

fn check_bytes(index: usize, stage: &Stage) -> Result<(), InvalidCosts> {
    let output_bytes = stage.output_bytes;
    for (way, Saving { saved_bytes, .. }) in ways(stage).enumerate() {
        if saved_bytes < output_bytes {
            return Err(InvalidCosts::SavedWithoutOutput { stage: index, way, saved_bytes, output_bytes });
        }
    }
    let parts = [
        ("idle_bytes", stage.idle_bytes, output_bytes),
        ("program_bytes", stage.program_bytes, stage.saved_bytes.saturating_sub(stage.idle_bytes)),
    ];
    if let Some((name, bytes, most_bytes)) = parts.into_iter().find(|(_, bytes, most)| bytes > most) {
        return Err(InvalidCosts::LargerPart { stage: index, name, bytes, most_bytes });
    }
    match stage.savings.len() {
        savings @ 1.. if stage.must_save => Err(InvalidCosts::RepeatsInside { stage: index, savings }),
        _ => Ok(()),
    }
}

pub(super) fn ways(stage: &Stage) -> impl Iterator<Item = Saving> {
    (0..stage.ways()).filter_map(|way| stage.way(way))
}

fn total_bytes(stage: &Stage) -> Option<u64> {
    let of_runs = [
        stage.output_bytes,
        stage.passing_bytes,
        stage.gradient_bytes,
        stage.variable_gradient_bytes,
        stage.forward_peak_bytes,
        stage.repeat_peak_bytes,
    ];
    let of_ways = ways(stage).flat_map(|it| {
        [it.saved_bytes, it.saving_peak_bytes, it.repeat_saving_peak_bytes, it.backward_peak_bytes]
    });
    of_runs.into_iter().chain(of_ways).try_fold(0_u64, u64::checked_add)
}
