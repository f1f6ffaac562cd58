//! What stages cost.

/// What one stage costs, in bytes and seconds.
///
/// Bytes of a run are those beyond what is held when it starts. Where a later run costs what the first does,
/// both fields have the same value: see [`Stage::repeated_alike`].
///
/// ```
/// # mod toma { pub use toma_plan::checkpoint; }
/// use toma::checkpoint::Stage;
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
    /// Time of the first run.
    pub forward_seconds: f64,
    /// Time of a later run.
    pub repeat_seconds: f64,
    /// Time of backward, with all that it needs held.
    pub backward_seconds: f64,
    /// The output, as it is held for the next stage.
    pub output_bytes: u64,
    /// All that backward needs, with the output and without the input.
    pub saved_bytes: u64,
    /// Of the output what stages before have made and this one does not save, beyond `saved_bytes`: it is held all the
    /// same where the stage is saved and drops its input. Stages that cannot be repeated have it in `saved_bytes`.
    pub passing_bytes: u64,
    /// The gradient of the output.
    pub gradient_bytes: u64,
    /// Peak of the first run beyond the output, if it saves nothing.
    pub forward_peak_bytes: u64,
    /// Peak of the first run beyond `saved_bytes`, if it saves.
    pub saving_peak_bytes: u64,
    /// Peak of a later run beyond the output, if it saves nothing.
    pub repeat_peak_bytes: u64,
    /// Peak of a later run beyond `saved_bytes`, if it saves.
    pub repeat_saving_peak_bytes: u64,
    /// Peak of backward beyond what is saved and both gradients.
    pub backward_peak_bytes: u64,
    /// Whether the stage cannot be repeated: every plan saves it in its first run.
    ///
    /// Its input is needed again at its backward only, and may be remade for it.
    pub must_save: bool,
    /// Ways to save less than all, at a price in time. A stage that cannot be repeated has none.
    pub savings: Vec<Saving>,
}

impl Stage {
    /// The same stage whose later runs take the time and the peaks of the first.
    #[must_use]
    pub fn repeated_alike(mut self) -> Self {
        self.repeat_seconds = self.forward_seconds;
        self.repeat_peak_bytes = self.forward_peak_bytes;
        self.repeat_saving_peak_bytes = self.saving_peak_bytes;
        self
    }

    /// How many ways there are to save it: all, and each of its [`savings`](Self::savings).
    pub fn ways(&self) -> usize {
        1 + self.savings.len()
    }

    /// What is held and paid if it is saved in a way: 0 is all, `n` is `savings[n - 1]`.
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
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Saving {
    /// What is held, with the output and without the input.
    pub saved_bytes: u64,
    /// The time by which backward takes longer.
    pub extra_seconds: f64,
    /// Peak of a first run beyond `saved_bytes`.
    pub saving_peak_bytes: u64,
    /// Peak of a later run beyond `saved_bytes`.
    pub repeat_saving_peak_bytes: u64,
    /// Peak of backward beyond `saved_bytes` and both gradients.
    pub backward_peak_bytes: u64,
}
