//! Gradients that the body of a training form changes itself.

use std::cell::Cell;
use std::ffi::CStr;

use tch::Tensor;
use toma_core::predict::is_dry;

use crate::ffi::{Recording, gradient_print};

/// Marks a body that has changed gradients: [`toma_plan::GRADIENTS`].
const GRADIENTS: &CStr = c"changed gradients";

/// Gradients of a call's variables. A body that changes them would do so once for each piece.
pub(super) struct Gradients<'a> {
    trained: &'a [Tensor],
    /// False if nothing but the declared loss decides that the call is split. Then bodies may add to gradients, as they
    /// may for a sum, but not drop those of earlier pieces.
    is_judged: bool,
    were_changed: Cell<bool>,
}

impl<'a> Gradients<'a> {
    pub(super) fn new(trained: &'a [Tensor], is_judged: bool) -> Self {
        Self { trained, is_judged, were_changed: Cell::new(false) }
    }

    /// Runs the body on the piece that begins at `start`.
    pub(super) fn watch<R>(
        &self,
        recording: Option<&Recording>,
        start: usize,
        body: impl FnOnce() -> R,
    ) -> R {
        let now = || self.trained.iter().map(gradient_print).collect::<Vec<_>>();
        let before = now();
        let value = body();
        let after = now();
        if let Some(recording) = recording.filter(|_| before != after) {
            recording.marked(GRADIENTS, || ());
        }
        let are_dropped = || before.iter().zip(&after).any(|(old, new)| old[0] != 0 && old[0] != new[0]);
        let is_changed = if self.is_judged { before != after } else { are_dropped() };
        if is_changed && start > 0 && !is_dry() {
            self.were_changed.set(true);
        }
        value
    }

    /// # Panics
    /// When a body has changed gradients after the first piece.
    pub(super) fn check(&self) {
        assert!(
            !self.were_changed.get(),
            "backward: the body changes gradients itself, so its pieces do not make up the whole"
        );
    }
}
