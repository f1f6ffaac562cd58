//! What the machine makes of measurements, for policies that ask for them.

use super::{Failed, Machine};
use crate::classify::Class;
use crate::engine::gauge::Measured;
use crate::engine::recording;
use crate::observe::Shortfall;

impl Machine {
    /// An attempt that succeeded enters the record; a rest says nothing about its size. Returns
    /// whether the size is to be used again.
    #[inline(never)]
    pub(super) fn note(&mut self, size: usize, measured: &Measured) -> bool {
        let Some(record) = &mut self.record else { return true };
        recording::succeeded(record, (size == self.step).then(|| measured.sample(size)), measured);
        if self.bounds.smallest_failure.is_some_and(|failed| failed <= size) {
            record.confirmed = 0;
        }
        !record.is_thrashing()
    }

    /// What the smallest size lacks, by what has been measured of others.
    pub(crate) fn shortfall(&self, measured: &Measured) -> Option<Shortfall> {
        let size = self.sizes.floor.min(self.end - self.position);
        let needs_bytes = self.record?.samples.needs_bytes(size)?;
        let free_bytes = measured.available_bytes.filter(|&free| free < needs_bytes)?;
        Some(Shortfall { size, needs_bytes, free_bytes })
    }

    /// What a size lacked that failed, and nothing smaller is allowed.
    pub(crate) fn lacked(&self, failed: &Failed<'_>) -> Option<Shortfall> {
        let size = self.piece().len();
        if failed.failure.class != Class::OutOfMemory || self.sizes.can_shrink(size) {
            return None;
        }
        let measured = failed.took.measured.copied().unwrap_or_default();
        let before = measured.peak_bytes.unwrap_or_default();
        let needs_bytes = failed.failure.requested_bytes?.saturating_add(before);
        let free_bytes = measured.available_bytes.or(failed.now.map(|now| now.free_bytes))?;
        (free_bytes < needs_bytes).then_some(Shortfall { size, needs_bytes, free_bytes })
    }
}
