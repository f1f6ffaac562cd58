//! Measurements of a region's stages, from its first operator to the end of its backward.

use super::facts::{Recorded, Recording, Slot, Value};
use super::measured::{Measured, Run};
use super::storages::Storages;
use super::uses::Uses;
use crate::checkpoint::{Costs, InvalidCosts};

/// Bytes at one moment.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readings {
    /// Bytes allocated since the region began; negative if it has freed more.
    pub allocated_bytes: i64,
    /// Bytes of the gradients that variables of the region lack.
    pub lacking_bytes: u64,
}

/// Measurements of all stages of a region.
///
/// The methods are called in the order in which a region runs. A region with a known structure needs no costs, so its
/// recordings are empty and only its times count.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    stages: Vec<Measured>,
    /// Bytes of the gradients that variables of the region lacked when it ended.
    lacking_bytes: u64,
    /// Bytes that the slots of a stage hold when its backward begins.
    held_bytes: u64,
    /// Peak after the end of the region, beyond the bytes that remain when backward arrives at it.
    fallen_bytes: u64,
    /// Bytes of outputs that the last stage saves. A recomputation makes new ones, which its backward frees.
    output_bytes: u64,
}

impl Ledger {
    /// Returns the stages that have begun, in order.
    pub fn stages(&self) -> &[Measured] {
        &self.stages
    }

    /// A stage begins with so many bytes allocated since the region began.
    pub fn stage_begins(&mut self, recording: &Recording<'_>, start_bytes: i64) {
        let elsewhere = (0..).zip(&*recording.values).filter(|(_, value)| value.is_elsewhere);
        let elsewhere = elsewhere.map(|(number, _)| number).collect();
        let held = (0..).zip(&*recording.slots).filter(|(_, slot)| slot.held_storage != 0);
        let held_slots = held.map(|(number, _)| number).collect();
        self.stages.push(Measured { start_bytes, elsewhere, held_slots, ..Measured::default() });
    }

    /// The last stage ends.
    pub fn stage_ends(&mut self, first: Run) {
        if let Some(stage) = self.stages.last_mut() {
            let (earlier, grown) = std::mem::take(&mut stage.joined);
            stage.first = earlier.then(grown, first);
        }
    }

    /// Joins the stages from `first` on into one, because an operator of the last writes to memory of the first. The run of
    /// the last goes on; the others have ended. Stages that are merged have all ended.
    pub fn joins(&mut self, first: u32) {
        let joined = self.stages.drain(first as usize + 1..).collect::<Vec<_>>();
        let (Some(stage), Some((last, ended))) = (self.stages.last_mut(), joined.split_last()) else {
            return;
        };
        // A backward inside the region may have recomputed the first part alone.
        stage.repeated = None;
        let grown = |other: &Measured| u64::try_from(other.start_bytes - stage.start_bytes).unwrap_or(0);
        let runs = ended.iter().fold(stage.first, |runs, other| runs.then(grown(other), other.first));
        let (earlier, begun) = last.joined;
        stage.joined = (runs.then(grown(last), earlier), grown(last) + begun);
    }

    /// The region ends, and its variables lack gradients of so many bytes. Returns the stages that are merged with the
    /// one before them, from the last to the first.
    pub fn ends(&mut self, mut recording: Recording<'_>, lacking_bytes: u64) -> Vec<u32> {
        let mut merged = Vec::new();
        recording.unite(|recording, second| {
            self.merges(recording, second);
            merged.push(second);
        });
        let sizes = self.stages.iter_mut().zip(&*recording.stages).zip(0..);
        sizes.for_each(|((stage, recorded), number)| size(stage, recorded, number, &recording));
        if let Some(uses) = Uses::of(&recording) {
            for (stage, number) in self.stages.iter_mut().zip(0..) {
                // Memory may have grown after a value was made in it.
                stage.idle_bytes = uses.idle_bytes(number).min(stage.output_bytes);
                stage.program_bytes = uses.program_bytes(number);
            }
        }
        self.lacking_bytes = lacking_bytes;
        merged
    }

    /// A stage is merged with the one before it. A recomputation measures the bytes that they save together.
    fn merges(&mut self, recording: &Recording<'_>, second: u32) {
        let next = self.stages.remove(second as usize);
        let joined = &mut self.stages[second as usize - 1];
        // The first run may have dropped the input in between; later runs hold it.
        let is_input = |value: &Value| value.stage + 1 == second && second <= value.last_stage;
        let made = recording.bytes_where(Storages::default(), is_input);
        let grown = u64::try_from(next.start_bytes - joined.start_bytes).unwrap_or(0).max(made);
        joined.first = joined.first.then(grown, next.first);
    }

    /// Records that backward recomputed a stage. The costs of this `run` are kept only if it `saves` tensors again.
    pub fn repeated(&mut self, stage: u32, saves: bool, run: Run) {
        let stage = &mut self.stages[stage as usize];
        stage.repeats += 1;
        if saves {
            stage.repeated = Some(run);
        }
    }

    /// Backward arrives at the region. Finds the bytes that the region does not hold: its outputs, tensors computed from
    /// them, and their gradients. `fallen_bytes` are those by which the peak since its end was higher.
    pub fn backward_arrives(&mut self, recording: &Recording<'_>, allocated_bytes: i64, fallen_bytes: u64) {
        let (Some(stage), Some(last)) = (self.stages.last_mut(), recording.stages.last()) else { return };
        let mut held = Storages::default();
        for value in recording.values.iter().filter(|value| value.is_held) {
            held.add(value.storage, value.storage_bytes);
        }
        for (number, slot) in (0..).zip(&*recording.slots) {
            let is_held = slot.held_storage != 0 || number >= last.first_slot;
            if !slot.is_outside && is_held && slot.is_alive {
                let is_new = held.add(slot.storage, slot.bytes);
                self.output_bytes += if is_new && slot.held_storage == 0 { slot.bytes } else { 0 };
            }
        }
        let held = i128::from(held.bytes) - i128::from(recording.elsewhere_bytes());
        stage.gradient_bytes = positive(i128::from(allocated_bytes) - held);
        self.fallen_bytes = fallen_bytes;
    }

    /// The backward of a stage begins.
    pub fn backward_begins(&mut self, recording: &Recording<'_>, stage: u32, now: Readings) {
        if recording.stages.is_empty() {
            return;
        }
        // Gradients of variables are no bytes of the region.
        let made = i128::from(self.lacking_bytes) - i128::from(now.lacking_bytes);
        // A plan may have dropped the input of the stage and made a new one.
        let held = i128::from(held_by_region(recording)) - i128::from(recording.elsewhere_bytes());
        let measured = &mut self.stages[stage as usize];
        measured.made_bytes = positive(made);
        let others = i128::from(now.allocated_bytes) - made - held - i128::from(measured.gradient_bytes);
        measured.others_bytes = positive(others);
        self.held_bytes = Storages::default().with(held_by(recording.slots_of(stage, stage)));
    }

    /// The backward of a stage ends. `is_counted` is false if its bytes could not be counted.
    pub fn backward_ends(&mut self, stage: u32, backward: Run, is_counted: bool) {
        let is_last = stage as usize + 1 == self.stages.len();
        let measured = &mut self.stages[stage as usize];
        // The peak is relative to all saved activations but idle ones, and the graph may hold only a part of them.
        let needed_bytes = measured.saved_bytes.saturating_sub(measured.idle_bytes);
        let unheld_bytes = needed_bytes.saturating_sub(self.held_bytes);
        let [before, beyond] = if is_last { [self.fallen_bytes, self.output_bytes] } else { [0, 0] };
        let peak_bytes = beyond + backward.saving_peak_bytes.saturating_sub(unheld_bytes);
        measured.backward_peak_bytes = before.max(peak_bytes);
        measured.backward_ns = backward.elapsed_ns;
        measured.is_counted = is_counted;
    }

    /// Bytes of the gradients that the costs count if all variables lack theirs, of `all_bytes`. 0 if some had theirs when
    /// the region ended: then it is not known which of them come when.
    ///
    /// If no variable has got its gradient when the backward of the first stage begins, backward returns the gradients
    /// instead, and they are among the others.
    pub fn counted_gradient_bytes(&self, all_bytes: u64, first_bytes: u64) -> u64 {
        let Some(first) = self.first_with_backward() else { return 0 };
        if self.lacking_bytes != all_bytes {
            return 0;
        }
        let made = if first.made_bytes == 0 { first.others_bytes } else { self.made_later(first.made_bytes) };
        made.saturating_add(first_bytes).min(self.made_later(all_bytes))
    }

    fn first_with_backward(&self) -> Option<&Measured> {
        self.stages.iter().find(|stage| stage.has_slots)
    }

    /// Bytes of the gradients of variables that the region's backward has made, once there are `made_bytes` in all.
    fn made_later(&self, made_bytes: u64) -> u64 {
        let before = self.stages.iter().rfind(|stage| stage.has_slots).map_or(0, |last| last.made_bytes);
        made_bytes.min(self.lacking_bytes).saturating_sub(before)
    }

    /// Returns the costs of the stages; `None` if backward has not come to the first stage that it needs. Later stages
    /// whose backward has not run belong to branches that lead to no gradient.
    ///
    /// `input_gradient_bytes` are those of the region's inputs, `first_bytes` those of variables that only the first
    /// stage uses.
    pub fn costs(&self, input_gradient_bytes: u64, first_bytes: u64) -> Option<Result<Costs, InvalidCosts>> {
        let is_whole =
            !self.stages.is_empty() && self.first_with_backward().is_none_or(|stage| stage.is_counted);
        is_whole.then(|| self.whole_costs(input_gradient_bytes, first_bytes))
    }

    fn whole_costs(&self, input_gradient_bytes: u64, first_bytes: u64) -> Result<Costs, InvalidCosts> {
        let mut input = input_gradient_bytes;
        let cost = |stage: &Measured| stage.cost(std::mem::replace(&mut input, stage.gradient_bytes));
        let mut stages: Vec<_> = self.stages.iter().map(cost).collect();
        // The last stage's `gradient_bytes` include allocations of the program after the region, such as the loss. Some
        // of them outlive the last stage's backward and are there when earlier stages are recomputed: `others_bytes`.
        let earlier = stages.len().saturating_sub(1);
        // Plans count these bytes from the start, but first runs come before they are allocated.
        let following = stages.last().map_or(0, |stage| stage.gradient_bytes);
        for stage in &mut stages {
            for peak in [&mut stage.forward_peak_bytes, &mut stage.saving_peak_bytes] {
                *peak = peak.saturating_sub(following);
            }
        }
        let mut most = 0;
        for (stage, measured) in stages[..earlier].iter_mut().zip(&self.stages).rev() {
            most = measured.others_bytes.max(most);
            for peak in [&mut stage.repeat_peak_bytes, &mut stage.repeat_saving_peak_bytes] {
                *peak = peak.saturating_add(most);
            }
            stage.backward_peak_bytes = stage.backward_peak_bytes.saturating_add(measured.others_bytes);
        }
        // The backward of a stage leaves the gradients that have come when that of an earlier stage begins. Before the
        // first stage with a backward, those of variables that it alone uses come.
        let first = self.first_with_backward();
        let mut now_bytes = first.map_or(0, |first| first.made_bytes.saturating_add(first_bytes));
        for (stage, measured) in stages.iter_mut().zip(&self.stages) {
            let before_bytes = if measured.has_slots { measured.made_bytes } else { now_bytes };
            let made = [now_bytes, before_bytes].map(|bytes| self.made_later(bytes));
            stage.variable_gradient_bytes = made[0].saturating_sub(made[1]);
            now_bytes = before_bytes;
        }
        Costs::new(stages)?.with_input_gradient(input_gradient_bytes)
    }
}

/// Computes the sizes of a stage from the recording, independent of the tensors that were held.
fn size(stage: &mut Measured, recorded: &Recorded, number: u32, recording: &Recording<'_>) {
    let passing = || recording.values.iter().filter(|value| value.passes(number));
    let slots = recording.slots_of(number, number);
    let own = || {
        // A kept stage also holds tensors of earlier stages that it saved.
        let is_own = |slot: &&Slot| recorded.is_kept || recording.is_made_in(number, slot);
        let own = slots.iter().filter(|slot| !slot.is_outside).filter(is_own);
        own.map(|slot| (slot.storage, slot.bytes))
    };
    let made = passing().filter(|value| value.stage == number);
    stage.output_bytes = Storages::default().with(passing().map(Value::memory));
    stage.saved_bytes = Storages::default().with(made.map(Value::memory).chain(own()));
    stage.united_bytes = Storages::default().with(passing().map(Value::memory).chain(own()));
    stage.gradient_bytes = passing().map(|value| value.gradient_bytes).sum();
    // Other tensors of the program, which are alive while the stage runs for the first time.
    let others =
        u64::try_from(stage.start_bytes).unwrap_or(0).saturating_sub(held_before(stage, number, recording));
    let others = others + staying(stage, number, recording);
    stage.first.dropping_peak_bytes += others;
    stage.first.saving_peak_bytes += others;
    (stage.elsewhere, stage.held_slots) = (Vec::new(), Vec::new());
    stage.first_op = recorded.first_op;
    stage.is_kept = recorded.is_kept;
    stage.has_slots = !slots.is_empty();
}

/// Bytes of earlier stages that this and later stages use, that boundaries hold, or that kept stages saved.
fn held_before(stage: &Measured, number: u32, recording: &Recording<'_>) -> u64 {
    let is_held =
        |value: &&Value| value.stage < number && (value.last_stage >= number || recording.is_needed(value));
    let values = recording.values.iter().filter(is_held).map(Value::memory);
    let slots = stage.held_slots.iter().map(|&slot| &recording.slots[slot as usize]);
    let slots = slots.filter(|slot| !slot.is_outside).map(|slot| (slot.storage, slot.bytes));
    Storages::default().with(values.chain(slots))
}

/// Bytes of the values elsewhere that the stage does not use, although they are alive during its first run.
fn staying(stage: &Measured, number: u32, recording: &Recording<'_>) -> u64 {
    let is_used = |value: &&Value| value.stage < number && number <= value.last_stage;
    let used = recording.values.iter().filter(is_used).map(|value| value.storage);
    let elsewhere = stage.elsewhere.iter().map(|&value| &recording.values[value as usize]);
    Storages::without_bytes(used).with(elsewhere.map(Value::memory))
}

/// Bytes that boundaries and slots hold.
fn held_by_region(recording: &Recording<'_>) -> u64 {
    let held = recording.values.iter().filter(|value| value.is_held);
    let held = held.map(Value::memory);
    Storages::default().with(held.chain(held_by(&recording.slots)))
}

/// Memory that slots hold now, with its bytes.
fn held_by(slots: &[Slot]) -> impl Iterator<Item = (usize, u64)> {
    let held = slots.iter().filter(|slot| !slot.is_outside && slot.held_storage != 0);
    held.map(|slot| (slot.held_storage, slot.bytes))
}

fn positive(bytes: i128) -> u64 {
    u64::try_from(bytes).unwrap_or(0)
}
