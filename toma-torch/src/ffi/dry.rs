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

/// What a dry run leaves to be said.
#[derive(Debug)]
pub(crate) struct DryOutcome {
    /// Tensors that live on.
    pub(crate) kept: u64,
    pub(crate) kept_bytes: u64,
    /// What made one of them.
    pub(crate) kept_operator: String,
    /// What could not be run dry, and why; empty where all could.
    pub(crate) refused: String,
    /// Operators whose results only data know.
    pub(crate) unknown: String,
}

unsafe extern "C" {
    fn toma_dry_begin(by_shapes: bool, out: &mut *mut c_void, error: &mut RawError) -> i32;
    // Takes what the first has given, or `toma_record_begin`.
    fn toma_dry_answer(recorder: *mut c_void, answer: f64);
    // Takes what the first has given.
    fn toma_dry_end(recorder: *mut c_void, out: &mut RawOutcome);
}

/// A dry run of this thread, which is recorded, and ends when it is ended or dropped.
#[derive(Debug)]
pub(crate) struct Dry {
    recording: Recording,
    runs: bool,
}

impl Recording {
    /// What a dry run says from here on where only data know; 1 in the beginning.
    pub(crate) fn answer(&self, number: f64) {
        // SAFETY: the recorder lives; one that is of no dry run is left alone.
        unsafe { toma_dry_answer(self.recorder(), number) };
    }
}

impl Dry {
    /// By shapes alone kernels are asked only where no rule is known; what they take besides their results is
    /// unknown then.
    pub(crate) fn begin(by_shapes: bool) -> Result<Self, Error> {
        let mut recorder = ptr::null_mut();
        // SAFETY: both are written to, and live through the call.
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
            // SAFETY: the run has not ended, and began on this thread.
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
