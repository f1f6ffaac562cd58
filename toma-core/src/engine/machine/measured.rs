//! What the machine makes of measurements, for policies that ask for them.

use super::{Failed, Machine, Took};
use crate::classify::Class;
use crate::engine::meter::Measured;
use crate::engine::recording;
use crate::observe::Shortfall;
use crate::policy::{Policy, Sample};

impl Machine {
    /// Bytes that the coming attempt could allocate, where the policy asks for them.
    pub(crate) fn available_bytes(&self) -> Option<u64> {
        self.available_bytes
    }

    /// An attempt that succeeded enters the record; a rest says nothing about its size. Returns
    /// whether the size is to be used again.
    #[inline(never)]
    pub(super) fn note(&mut self, size: usize, measured: &Measured) -> bool {
        let sample = self.sample(size, measured);
        let Some(measurements) = &mut self.measurements else { return true };
        recording::succeeded(measurements, sample, measured);
        recording::works(measurements, size, self.bounds);
        !measurements.is_thrashing()
    }

    /// A batch is one attempt. Where the next one would have another size because of it, it settles
    /// its own, so that the next one knows.
    #[inline(never)]
    pub(super) fn look_ahead(&mut self, policy: &impl Policy, size: usize, took: Took<'_>) {
        let next = self.sizes.fit(policy.advance(&self.evidence(size, took)));
        if next != self.step && !self.fallen {
            self.learning.settled = Some(self.step);
        }
    }

    /// What an attempt says about the step in force.
    fn sample(&self, size: usize, measured: &Measured) -> Option<Sample> {
        if self.packing.is_some() {
            return self.fills(size).then(|| in_proportion(measured.sample(size), self.step));
        }
        (size == self.step).then(|| measured.sample(size))
    }

    /// What the smallest size lacks, by what has been measured of others.
    pub(crate) fn shortfall(&self, measured: &Measured) -> Option<Shortfall> {
        let size = self.sizes.floor.min(self.left());
        let needs_bytes = self.measurements?.samples.needs_bytes(size)?;
        let free_bytes = measured.available_bytes.filter(|&free| free < needs_bytes)?;
        Some(Shortfall { size, needs_bytes, free_bytes })
    }

    /// What a size lacked that failed, and nothing smaller is allowed.
    pub(crate) fn lacked(&self, failed: &Failed<'_>) -> Option<Shortfall> {
        let size = self.size();
        if failed.failure.class != Class::OutOfMemory || self.can_be_smaller() {
            return None;
        }
        let measured = failed.took.measured.copied().unwrap_or_default();
        let before = measured.peak_bytes.unwrap_or_default();
        let needs_bytes = failed.failure.requested_bytes?.saturating_add(before);
        let free_bytes = measured.available_bytes.or(failed.now.map(|now| now.free_bytes))?;
        (free_bytes < needs_bytes).then_some(Shortfall { size, needs_bytes, free_bytes })
    }
}

/// The same at another size. Pieces that are packed are of many sizes, and a step that followed them
/// would shrink with each; what every attempt needs besides makes this say rather too much.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates, which are not negative; and a cast saturates"
)]
fn in_proportion(sample: Sample, size: usize) -> Sample {
    let factor = size as f64 / sample.size as f64;
    let time = sample.time.map(|time| time.mul_f64(factor));
    Sample { time, bytes: sample.bytes.map(|bytes| (bytes as f64 * factor) as u64), ..Sample::new(size) }
}
