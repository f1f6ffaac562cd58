//! Costs of stages.

/// Cost of one stage, in bytes and seconds.
///
/// Bytes of a run are those beyond the bytes held when it starts. If a later run costs the same as the first, both
/// fields have the same value: see [`Stage::repeated_alike`].
///
/// ```
/// use toma_plan::checkpoint::Stage;
///
/// let stage = Stage {
///     forward_seconds: 0.010,
///     backward_seconds: 0.020,
///     output_bytes: 4 << 20,
///     saved_bytes: 12 << 20,
///     gradient_bytes: 4 << 20,
///     ..Stage::default()
/// };
/// assert_eq!(stage.repeated_alike().repeat_seconds, 0.010);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stage {
    /// Time of the first run in seconds.
    pub forward_seconds: f64,
    /// Time of a later run in seconds.
    pub repeat_seconds: f64,
    /// Time of backward in seconds, with everything that it needs held.
    pub backward_seconds: f64,
    /// Bytes of the output, as it is held for the next stage.
    pub output_bytes: u64,
    /// Bytes of all activations that backward needs, including the output and without the input.
    pub saved_bytes: u64,
    /// Bytes of values in the output that earlier stages made and that `saved_bytes` does not include. They stay held
    /// if the stage is saved and drops its input. Stages that cannot be repeated have them in `saved_bytes`.
    pub passing_bytes: u64,
    /// Bytes of the output that backward does not need. They are gone when the next stage has run, unless that stage is
    /// repeated, and when the backward of this stage begins.
    pub idle_bytes: u64,
    /// Bytes of `saved_bytes` that the program holds as well until all stages have run, and that no stage after the
    /// next one uses. The peaks of first runs after the next stage include them, so where this stage is saved, those
    /// peaks count without them.
    pub program_bytes: u64,
    /// Bytes of the gradient of the output.
    pub gradient_bytes: u64,
    /// Peak of the first run beyond the output, if it saves nothing.
    pub forward_peak_bytes: u64,
    /// Peak of the first run beyond `saved_bytes`, if it saves.
    pub saving_peak_bytes: u64,
    /// Peak of a later run beyond the output, if it saves nothing.
    pub repeat_peak_bytes: u64,
    /// Peak of a later run beyond `saved_bytes`, if it saves.
    pub repeat_saving_peak_bytes: u64,
    /// Peak of backward beyond both gradients and the saved activations without `idle_bytes`.
    pub backward_peak_bytes: u64,
    /// Bytes of gradients of variables that backward leaves allocated. While it runs they are part of its peak.
    pub variable_gradient_bytes: u64,
    /// True if the stage cannot be repeated: every plan saves it in its first run.
    ///
    /// Its input is needed again only for its backward, and may be recomputed for it.
    pub must_save: bool,
    /// Ways to save less than all, at a price in time. A stage that cannot be repeated has none.
    pub savings: Vec<Saving>,
}

impl Stage {
    /// Returns the stage with later runs that take the time and the peaks of the first run.
    #[must_use]
    pub fn repeated_alike(mut self) -> Self {
        self.repeat_seconds = self.forward_seconds;
        self.repeat_peak_bytes = self.forward_peak_bytes;
        self.repeat_saving_peak_bytes = self.saving_peak_bytes;
        self
    }

    /// Peak of a backward beyond the saved activations and both gradients.
    pub(super) fn backward_peak(&self, saving: &Saving) -> u64 {
        saving.backward_peak_bytes.max(self.variable_gradient_bytes)
    }

    /// Bytes that the stage holds while later stages have their backward, if none of them is repeated.
    pub(super) fn needed_bytes(&self, saving: &Saving) -> u64 {
        saving.saved_bytes - self.idle_bytes
    }

    /// Returns the number of ways to save the stage: all of it, and each of its [`savings`](Self::savings).
    pub fn ways(&self) -> usize {
        1 + self.savings.len()
    }

    /// Returns the cost of saving the stage in a way: 0 saves all, `n` is `savings[n - 1]`.
    pub fn way(&self, way: usize) -> Option<Saving> {
        match way.checked_sub(1) {
            Some(index) => self.savings.get(index).copied(),
            None => Some(Saving {
                saved_bytes: self.saved_bytes,
                extra_seconds: 0.0,
                saving_peak_bytes: self.saving_peak_bytes,
                repeat_saving_peak_bytes: self.repeat_saving_peak_bytes,
                backward_peak_bytes: self.backward_peak_bytes,
            }),
        }
    }
}

/// A way to save a stage: the results of some operators are held, the others are repeated in its backward.
///
/// Without the 8 bytes of an activation that backward computes again in 10 ms:
///
/// ```
/// use toma_plan::checkpoint::{Saving, Stage};
///
/// let saving = Saving { saved_bytes: 4, extra_seconds: 0.01, ..Saving::default() };
/// let stage = Stage { output_bytes: 4, saved_bytes: 12, savings: vec![saving], ..Stage::default() };
/// assert_eq!(stage.ways(), 2);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Saving {
    /// Bytes held, including the output and without the input.
    pub saved_bytes: u64,
    /// Additional time of backward in seconds.
    pub extra_seconds: f64,
    /// Peak of a first run beyond `saved_bytes`.
    pub saving_peak_bytes: u64,
    /// Peak of a later run beyond `saved_bytes`.
    pub repeat_saving_peak_bytes: u64,
    /// Peak of backward beyond both gradients and `saved_bytes` without the stage's `idle_bytes`.
    pub backward_peak_bytes: u64,
}
