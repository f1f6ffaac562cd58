//! The facts that come with each question, and sums over them.

use std::borrow::Cow;

use super::storages::Storages;

/// Number in place of a stage or value that does not exist.
pub const NONE: u32 = u32::MAX;

/// A tensor that an operator of the region made.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// Identity of its memory: values that share memory have the same number.
    pub storage: usize,
    /// Bytes of all of its memory.
    pub storage_bytes: u64,
    /// Bytes of its gradient; 0 if it has none.
    pub gradient_bytes: u64,
    /// Stage that made it.
    pub stage: u32,
    /// Last stage that used it.
    pub last_stage: u32,
    /// Last operator that used it.
    pub last_op: u32,
    /// True while anything refers to the tensor.
    pub is_alive: bool,
    /// True while a boundary between stages holds it.
    pub is_held: bool,
    /// True while a boundary holds it and the program refers to its memory as well.
    pub is_elsewhere: bool,
}

impl Value {
    /// True if the value is used after a stage and was made before its end.
    pub(super) fn passes(&self, boundary: u32) -> bool {
        self.stage <= boundary && boundary < self.last_stage
    }

    pub(super) fn memory(&self) -> (usize, u64) {
        (self.storage, self.storage_bytes)
    }
}

/// A tensor that an operator saved for backward.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Identity of the memory of the tensor that was saved.
    pub storage: usize,
    /// Bytes of that memory.
    pub bytes: u64,
    /// Identity of the memory that the slot holds now, which is new after a recomputation; 0 if it holds none.
    pub held_storage: usize,
    /// Number of the value that made its memory; [`NONE`] if the memory is the operator's own. Memory from outside of
    /// the region has a number that no value has.
    pub maker: u32,
    /// True if it is from outside of the region, so that holding it costs nothing.
    pub is_outside: bool,
    /// True once backward does not need it any more.
    pub is_dead: bool,
    /// True while anything refers to the memory of the tensor that was saved. When the region ends: true
    /// if anything did from the beginning of the last stage until the last operator had run.
    pub is_alive: bool,
}

/// A sequence of operators that is saved or recomputed as a whole.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its first operator.
    pub first_op: u32,
    /// Its first slot.
    pub first_slot: u32,
    /// Kind of the last action that ran it, for the program alone.
    pub action: u32,
    /// True while the boundary after the stage is held.
    pub holds_output: bool,
    /// True if it cannot be recomputed.
    pub is_kept: bool,
    /// True while its slots are filled, for the program alone.
    pub is_saved: bool,
}

/// A region as far as it has run.
#[derive(Clone, Debug, Default)]
pub struct Recording<'a> {
    /// Number of operators.
    pub ops: u32,
    /// In the order in which they were made.
    pub values: Cow<'a, [Value]>,
    /// In the order in which they were saved.
    pub slots: Cow<'a, [Slot]>,
    /// In the order in which they ran. Empty if the region is not to be measured.
    pub stages: Cow<'a, [Recorded]>,
}

impl Recording<'_> {
    pub(super) fn stage_count(&self) -> u32 {
        u32::try_from(self.stages.len()).unwrap_or(NONE)
    }

    /// Returns the slots from one stage to another, both included.
    pub(super) fn slots_of(&self, first: u32, last: u32) -> &[Slot] {
        let begin =
            |stage: usize| self.stages.get(stage).map_or(self.slots.len(), |it| it.first_slot as usize);
        &self.slots[begin(first as usize)..begin(last as usize + 1)]
    }

    /// True if the memory of a slot is of a stage in which the slot is.
    pub(super) fn is_made_in(&self, stage: u32, slot: &Slot) -> bool {
        let maker = self.values.get(slot.maker as usize);
        slot.maker == NONE || maker.is_some_and(|value| value.stage == stage)
    }

    /// Bytes of the values that `counts` accepts, in memory that is not in `except`.
    pub(super) fn bytes_where(&self, except: Storages, counts: impl Fn(&Value) -> bool) -> u64 {
        except.with(self.values.iter().filter(|value| counts(value)).map(Value::memory))
    }

    /// Bytes that a boundary holds.
    pub(super) fn passing_bytes(&self, boundary: u32, except: Storages) -> u64 {
        self.bytes_where(except, |value| value.passes(boundary))
    }

    /// Bytes that all boundaries hold now.
    pub(super) fn held_bytes(&self) -> u64 {
        self.bytes_where(Storages::default(), |value| value.is_held)
    }

    /// Bytes that boundaries hold and the program refers to as well.
    pub(super) fn elsewhere_bytes(&self) -> u64 {
        self.bytes_where(Storages::default(), |value| value.is_elsewhere)
    }

    /// Bytes that the slots of these stages would hold in addition to live tensors.
    pub(super) fn dropped_bytes(&self, first: u32, last: u32) -> u64 {
        let is_dropped = |slot: &&Slot| !slot.is_outside && !slot.is_alive;
        let dropped = self.slots_of(first, last).iter().filter(is_dropped);
        Storages::default().with(dropped.map(|slot| (slot.storage, slot.bytes)))
    }

    /// Memory that backward needs of all stages.
    pub(super) fn saved_storages(&self) -> Storages {
        Storages::without_bytes(self.slots.iter().filter(|slot| !slot.is_dead).map(|slot| slot.storage))
    }

    /// True if a boundary that is held needs the value.
    pub(super) fn is_needed(&self, value: &Value) -> bool {
        let end = (value.last_stage as usize).min(self.stages.len());
        let passed = self.stages.get(value.stage as usize..end);
        passed.is_some_and(|stages| stages.iter().any(|stage| stage.holds_output))
    }
}
