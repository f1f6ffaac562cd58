//! Dry runs.

use std::ffi::{c_char, c_void};
use std::ptr;

use super::{RawError, Recording, checked, text_of};
use crate::error::Error;

/// `toma_dry_outcome` of the shim.
#[repr(C)]
struct RawOutcome {
    kept: u64,
    kept_bytes: u64,
    kept_operator: [c_char; 128],
    refused: [c_char; 384],
    unknown: [c_char; 384],
}

/// Results of a dry run in addition to its recording.
#[derive(Debug)]
pub(crate) struct DryOutcome {
    /// Number of tensors that outlive the run.
    pub(crate) kept: u64,
    pub(crate) kept_bytes: u64,
    /// Operator that made one of them.
    pub(crate) kept_operator: String,
    /// First operation that could not run dry, with the reason; empty if all could.
    pub(crate) refused: String,
    /// Operators whose results depend on data.
    pub(crate) unknown: String,
}

unsafe extern "C" {
    fn toma_dry_begin(by_shapes: bool, out: &mut *mut c_void, error: &mut RawError) -> i32;
    // Takes a recorder of `toma_dry_begin` or of `toma_record_begin`.
    fn toma_dry_answer(recorder: *mut c_void, first: f64, step: f64);
    fn toma_dry_has_seeded(recorder: *const c_void) -> bool;
    // Takes a recorder of `toma_dry_begin`.
    fn toma_dry_end(recorder: *mut c_void, out: &mut RawOutcome);
}

/// A dry run of this thread, which is recorded. It ends when `end` is called or it is dropped.
#[derive(Debug)]
pub(crate) struct Dry {
    recording: Recording,
    runs: bool,
}

impl Recording {
    /// Sets the numbers that a dry run assumes from here on where results depend on data: the first, and the step from
    /// each to the next. They begin as 1, and stay so.
    pub(crate) fn answer(&self, first: f64, step: f64) {
        // SAFETY: the recorder lives; a recorder without a dry run ignores the numbers.
        unsafe { toma_dry_answer(self.recorder(), first, step) };
    }

    /// True if this is a dry run in which a generator of random numbers was seeded.
    pub(crate) fn has_seeded(&self) -> bool {
        // SAFETY: the recorder lives; it answers false without a dry run.
        unsafe { toma_dry_has_seeded(self.recorder()) }
    }
}

impl Dry {
    /// Begins a dry run. With `by_shapes`, kernels are called only if no rule is known, so their scratch is unknown.
    pub(crate) fn begin(by_shapes: bool) -> Result<Self, Error> {
        let mut recorder = ptr::null_mut();
        // SAFETY: both references are written to, and live through the call.
        checked(|error| unsafe { toma_dry_begin(by_shapes, &mut recorder, error) })?;
        Ok(Self { recording: Recording::of(recorder, true), runs: true })
    }

    pub(crate) const fn recording(&self) -> &Recording {
        &self.recording
    }

    pub(crate) fn end(mut self) -> DryOutcome {
        let raw = self.finish();
        DryOutcome {
            kept: raw.kept,
            kept_bytes: raw.kept_bytes,
            kept_operator: text_of(&raw.kept_operator),
            refused: text_of(&raw.refused),
            unknown: text_of(&raw.unknown),
        }
    }

    fn finish(&mut self) -> RawOutcome {
        let mut raw = RawOutcome {
            kept: 0,
            kept_bytes: 0,
            kept_operator: [0; 128],
            refused: [0; 384],
            unknown: [0; 384],
        };
        if std::mem::take(&mut self.runs) {
            // SAFETY: the run has not ended, and it began on this thread.
            unsafe { toma_dry_end(self.recording.recorder(), &mut raw) };
        }
        raw
    }
}

impl Drop for Dry {
    fn drop(&mut self) {
        self.finish();
    }
}
