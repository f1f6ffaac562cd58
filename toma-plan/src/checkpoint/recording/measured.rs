//! Measurements of a stage, and the costs that plans count with.

use std::time::Duration;

use crate::checkpoint::Stage;

/// Measurements of one run of a stage, or of its backward.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Nanoseconds.
    pub elapsed_ns: u64,
    /// Peak in bytes, beyond those at the start of the run, if the run drops the tensors that backward needs.
    pub dropping_peak_bytes: u64,
    /// Peak in bytes, beyond those at the start of the run, if the run saves them.
    pub saving_peak_bytes: u64,
}

impl Run {
    /// Combines this run with a later one that began with `grown` more bytes.
    pub(super) fn then(self, grown: u64, later: Self) -> Self {
        Self {
            elapsed_ns: self.elapsed_ns + later.elapsed_ns,
            dropping_peak_bytes: self.dropping_peak_bytes.max(grown + later.dropping_peak_bytes),
            saving_peak_bytes: self.saving_peak_bytes.max(grown + later.saving_peak_bytes),
        }
    }
}

/// Measurements of a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Its first operator.
    pub first_op: u32,
    /// How often it was recomputed.
    pub repeats: u32,
    /// Its first run.
    pub first: Run,
    /// Its last recomputation that saved.
    pub repeated: Option<Run>,
    /// Time of its backward in nanoseconds.
    pub backward_ns: u64,
    /// Peak of its backward beyond the saved activations.
    pub(super) backward_peak_bytes: u64,
    /// Bytes of this and earlier stages that later ones use.
    pub(super) output_bytes: u64,
    /// Bytes of this stage that its backward needs.
    pub(super) saved_bytes: u64,
    /// Bytes of output and saved activations together.
    pub(super) united_bytes: u64,
    /// Bytes of the output that only the next stage uses, and backward does not need.
    pub(super) idle_bytes: u64,
    /// Bytes that it saves in memory that the program held until the last operator had run, and that no stage after the
    /// next one uses.
    pub(super) program_bytes: u64,
    /// Bytes of the gradients of the output.
    pub(super) gradient_bytes: u64,
    /// Bytes of variables' gradients that the backwards of later stages have allocated.
    pub(super) made_bytes: u64,
    /// Bytes at the begin of its backward that no other field counts: tensors of the program, unfinished gradients.
    pub(super) others_bytes: u64,
    /// True if it cannot be recomputed.
    pub(super) is_kept: bool,
    /// True if backward needs anything of it.
    pub(super) has_slots: bool,
    /// True once its backward has run and its bytes were counted.
    pub(super) is_counted: bool,
    /// Bytes allocated between the begin of the region and its own.
    pub(super) start_bytes: i64,
    /// First runs of the stages that were joined to it, and by how many bytes the last of them began above its own start.
    pub(super) joined: (Run, u64),
    /// Values that the program referred to when it began, although a boundary held them.
    pub(super) elsewhere: Vec<u32>,
    /// Slots of kept stages, which held a tensor when it began.
    pub(super) held_slots: Vec<u32>,
}

impl Measured {
    /// Cost of the stage by itself.
    pub(super) fn cost(&self, input_gradient_bytes: u64) -> Stage {
        let Self { output_bytes, united_bytes, first, .. } = *self;
        let seconds = |nanoseconds: u64| Duration::from_nanos(nanoseconds).as_secs_f64();
        // Plans save a stage that cannot be recomputed without its input, so it holds the passing bytes as well.
        let saved_bytes = if self.is_kept { united_bytes } else { self.saved_bytes.max(output_bytes) };
        // A stage that was never recomputed as a whole counts with the figures of its first run.
        let repeated = self.repeated.unwrap_or(first);
        // The first run dropped activations as well, and the program's temporaries lived longer in it.
        let repeat_peak_bytes = repeated.dropping_peak_bytes.min(first.dropping_peak_bytes);
        // Within one operator, the first run cannot distinguish saved bytes from scratch bytes. A recomputation really
        // saves.
        let longer_bytes = first.dropping_peak_bytes - repeat_peak_bytes;
        let saving_peak_bytes =
            first.saving_peak_bytes.max(repeated.saving_peak_bytes.saturating_add(longer_bytes));
        Stage {
            forward_seconds: seconds(first.elapsed_ns),
            repeat_seconds: seconds(repeated.elapsed_ns),
            backward_seconds: seconds(self.backward_ns),
            output_bytes,
            saved_bytes,
            passing_bytes: united_bytes - saved_bytes,
            idle_bytes: self.idle_bytes,
            program_bytes: self.program_bytes.min(saved_bytes - self.idle_bytes),
            gradient_bytes: self.gradient_bytes,
            forward_peak_bytes: first.dropping_peak_bytes.saturating_sub(output_bytes),
            saving_peak_bytes: saving_peak_bytes.saturating_sub(saved_bytes),
            repeat_peak_bytes: repeat_peak_bytes.saturating_sub(output_bytes),
            repeat_saving_peak_bytes: repeated.saving_peak_bytes.saturating_sub(saved_bytes),
            backward_peak_bytes: self.backward_peak_bytes.saturating_sub(input_gradient_bytes),
            must_save: self.is_kept,
            ..Stage::default()
        }
    }
}
