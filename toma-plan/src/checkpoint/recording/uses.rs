//! Uses of memory, which show the bytes that a plan need not hold, and those that the program holds as well.

use std::collections::{HashMap, HashSet};

use super::facts::{NONE, Recording, Slot};
use super::storages::Storages;

/// Uses of all memory of a region that has ended, and whose stages can all be recomputed. A stage that is kept holds
/// tensors of other stages as well.
pub(super) struct Uses<'a> {
    recording: &'a Recording<'a>,
    /// Memory that backward needs.
    saved: HashSet<usize>,
    /// Memory of saved tensors that the program held while all operators of the last stage ran.
    of_program: HashSet<usize>,
    /// The last stage that uses the memory of values; [`NONE`] if the program goes on to use it.
    last_stages: HashMap<usize, u32>,
}

impl<'a> Uses<'a> {
    /// `None` if a stage is kept.
    pub(super) fn of(recording: &'a Recording<'a>) -> Option<Self> {
        if recording.stages.iter().any(|stage| stage.is_kept) {
            return None;
        }
        let saved = recording.slots.iter().filter(|slot| !slot.is_dead).map(|slot| slot.storage).collect();
        let held = recording.values.iter().filter(|value| value.is_held && !value.is_elsewhere);
        let held: HashSet<_> = held.map(|value| value.storage).collect();
        let alive = recording.slots.iter().filter(|slot| slot.is_alive && !held.contains(&slot.storage));
        let of_program = alive.map(|slot| slot.storage).collect();
        let mut last_stages = HashMap::new();
        for value in &*recording.values {
            let last_stage = if value.is_alive { NONE } else { value.last_stage };
            let known = last_stages.entry(value.storage).or_insert(0);
            *known = last_stage.max(*known);
        }
        Some(Self { recording, saved, of_program, last_stages })
    }

    fn end_with(&self, storage: usize, stage: u32) -> bool {
        self.last_stages.get(&storage).is_none_or(|last_stage| *last_stage <= stage)
    }

    /// Bytes of a stage's output that only the next stage uses, and backward does not need.
    pub(super) fn idle_bytes(&self, stage: u32) -> u64 {
        self.recording.bytes_where(Storages::default(), |value| {
            let is_idle = value.stage == stage && value.last_stage == stage + 1;
            is_idle && !self.saved.contains(&value.storage) && self.end_with(value.storage, stage + 1)
        })
    }

    /// Bytes that the stage saves in memory of the program, and that no stage after the next one uses. None of them are
    /// idle: backward needs them.
    pub(super) fn program_bytes(&self, stage: u32) -> u64 {
        let recording = self.recording;
        let is_made = |slot: &&Slot| {
            recording.values.get(slot.maker as usize).is_some_and(|value| value.stage == stage)
        };
        let own = recording.slots_of(stage, stage).iter().filter(|slot| recording.is_made_in(stage, slot));
        // The output may be saved by the next stage alone.
        let next = recording.slots_of(stage + 1, stage + 1).iter().filter(is_made);
        let saved = own.chain(next).filter(|slot| !slot.is_outside && !slot.is_dead);
        let ended = saved
            .filter(|slot| self.of_program.contains(&slot.storage) && self.end_with(slot.storage, stage + 1));
        Storages::default().with(ended.map(|slot| (slot.storage, slot.bytes)))
    }
}
