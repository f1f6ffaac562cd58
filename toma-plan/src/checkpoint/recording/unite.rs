//! Small stages that are merged when the region ends.

use super::facts::{NONE, Recording, Value};
use super::storages::Storages;

impl Recording<'_> {
    /// Returns true if backward needs less than half of the bytes at a boundary, and few other bytes of one of the two
    /// stages. To hold the input of that stage, or its output, is then equally good.
    pub(super) fn is_idle(&self, boundary: u32, saved: &Storages) -> bool {
        let passing = self.passing_bytes(boundary, Storages::default());
        let is_small = |stage: u32| 2 * self.inner_bytes(stage) <= passing;
        2 * self.passing_bytes(boundary, saved.clone()) > passing
            && (is_small(boundary) || is_small(boundary + 1))
    }

    /// Bytes of a stage that backward needs, except its output.
    fn inner_bytes(&self, stage: u32) -> u64 {
        let is_last = stage + 1 == self.stage_count();
        let is_output = |value: &&Value| {
            value.stage <= stage && (stage < value.last_stage || (is_last && value.is_alive))
        };
        let output = self.values.iter().filter(is_output).map(|value| value.storage);
        let slots = self.slots_of(stage, stage).iter();
        let own = slots.filter(|slot| !slot.is_outside && !slot.is_dead && self.is_made_in(stage, slot));
        Storages::without_bytes(output).with(own.map(|slot| (slot.storage, slot.bytes)))
    }

    /// Merges small stages at boundaries that backward does not need, because a plan counts boundaries that it holds
    /// as saved. Calls `merges` with the number of each stage before it is merged with the one before it, from the
    /// last to the first. A region with a stage that cannot be recomputed stays as it is.
    pub(super) fn unite(&mut self, mut merges: impl FnMut(&Self, u32)) {
        if self.stages.iter().any(|stage| stage.is_kept) {
            return;
        }
        let saved = self.saved_storages();
        for second in (1..self.stage_count()).rev() {
            if self.is_idle(second - 1, &saved) {
                merges(self, second);
                self.merge(second);
            }
        }
    }

    /// Merges a stage with the one before it.
    fn merge(&mut self, second: u32) {
        let stages = self.stages.to_mut();
        let merged = stages.remove(second as usize);
        stages[second as usize - 1].holds_output = merged.holds_output;
        for value in self.values.to_mut() {
            for stage in [&mut value.stage, &mut value.last_stage] {
                *stage -= u32::from(*stage != NONE && *stage >= second);
            }
        }
    }
}
