//! Run of a region: with or without a recording, by a plan if its costs are known, and learned from otherwise.

use std::mem;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Arc;

use tch::{Kind, TchError, Tensor};
use toma_core::leaner;
use toma_core::predict::is_dry;
use toma_plan::checkpoint::Costs;

use super::With;
use super::choosing::Choosing;
use super::learned::{self, RegionKey};
use super::measured::MeasuredRegion;
use super::report::{self, Ran};
use super::running::RunningRegion;
use crate::ModeGuard;
use crate::cpu;
use crate::error::{Error, ErrorKind};
use crate::ffi::{self, Chosen, RecordingRegion, Region, RegionOptions};
use crate::predict::note_kept_size;

impl With<'_> {
    /// Runs a closure and recomputes in its backward the activations that do not fit.
    ///
    /// # Panics
    /// As [`region`](super::region()).
    #[track_caller]
    pub fn region<R>(&self, body: impl FnOnce() -> R) -> R {
        self.region_at(Location::caller(), body)
    }

    /// Runs [`region`](Self::region) with a closure that returns errors of tch.
    ///
    /// ```
    /// use tch::{Kind, TchError, Tensor};
    /// use toma_torch::checkpoint;
    ///
    /// fn step(weight: &Tensor) -> Result<(), TchError> {
    ///     let output = checkpoint::with().f_region(|| weight.f_sigmoid()?.f_tanh())?;
    ///     output.f_sum(Kind::Float)?.f_backward()
    /// }
    /// let weight = Tensor::ones([64, 64], (Kind::Float, tch::Device::Cpu)).set_requires_grad(true);
    /// assert!(step(&weight).is_ok());
    /// ```
    ///
    /// # Errors
    /// Errors of the closure. If no plan fits the budget, the error of the first operator, or of the first one that
    /// differs from the known structure.
    #[track_caller]
    pub fn f_region<R>(&self, body: impl FnOnce() -> Result<R, TchError>) -> Result<R, TchError> {
        run(self, self.key(Location::caller()), body)?
    }

    /// Measures the costs of a closure's stages by one run with its backward, which leaves no trace. Gradients, random
    /// numbers and tensors that the closure writes to are put back, and its backward ends at tensors that were computed
    /// before. A `backward` within the closure leaves its gradients, and shapes that are changed in place stay changed.
    ///
    /// During the run operators of the CPU draw from a generator of their own. On accelerators the generators of the
    /// process are set back afterwards, so a thread that draws there at the same time may draw numbers twice.
    ///
    /// # Errors
    /// Errors of the closure and of its backward; for a closure that returns a tensor that it did not make or that
    /// requires no gradient; for an operator that gives in place a gradient to a tensor from outside, and one of the CPU
    /// that draws random numbers and takes no generator; and in a dry run.
    #[track_caller]
    pub fn measure(&self, body: impl FnOnce() -> Tensor) -> Result<Costs, Error> {
        measure(self, &self.key(Location::caller()), body)
    }

    pub(super) fn region_at<R>(&self, location: &'static Location<'static>, body: impl FnOnce() -> R) -> R {
        run(self, self.key(location), body).unwrap_or_else(|error| panic!("checkpoint: {error}"))
    }

    fn key(&self, location: &'static Location<'static>) -> RegionKey {
        match self.name {
            Some(name) => RegionKey::Named(name.into()),
            None => RegionKey::Line(location.file(), location.line(), location.column()),
        }
    }
}

/// Runs a closure as a region, or plainly where nothing is to be recomputed.
fn run<R>(form: &With<'_>, key: RegionKey, body: impl FnOnce() -> R) -> Result<R, Error> {
    if ffi::toma_region_records() {
        let _stage = Cut::begin(0);
        return Ok(body());
    }
    if form.enabled && form.keep_size && is_dry() {
        note_kept_size();
    }
    if !form.enabled || is_dry() || toma_core::private::is_disabled() || !ffi::is_grad_enabled() {
        return Ok(body());
    }
    recorded(form, key, body)
}

fn recorded<R>(form: &With<'_>, key: RegionKey, body: impl FnOnce() -> R) -> Result<R, Error> {
    cpu::count();
    if form.keep_size {
        leaner::keep_size();
    }
    let running = Arc::new(RunningRegion::default());
    let mut choosing = Choosing::new(form, &key, &running);
    let options = RegionOptions { verify: form.verify, undoes: false, observer: running.clone() };
    let recording = RecordingRegion::begin(|begun| choosing.choose(begun), options)?;
    // `tch::no_grad` does not survive a panic.
    let modes = ModeGuard::new();
    let value = body();
    mem::forget(modes);
    if let Some(region) = recording.end() {
        let region = Arc::new(MeasuredRegion::new(region, running.clone()));
        let plan = running.plan();
        if plan.is_none() {
            learned::learn(&key, region.clone());
        } else if region.figures().differs != u64::MAX {
            learned::differed(&key, &region);
        } else if let Some(structure) = choosing.structure() {
            structure.ran(region.clone());
        }
        report::set_last(Ran { key, region, plan });
    }
    Ok(value)
}

/// Guard that cuts a stage at its begin and end. With `deeper` 1, only cuts begin stages inside it.
pub(super) struct Cut(i32);

impl Cut {
    pub(super) fn begin(deeper: i32) -> Self {
        ffi::toma_region_cut(deeper);
        Self(-deeper)
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        ffi::toma_region_cut(self.0);
    }
}

/// Ends of the error texts for outputs that cannot be measured.
const FOREIGN: &str =
    "it did not make, whose backward leaves the region; return a tensor that the closure computes";
const UNTRAINED: &str = "requires no gradient, so it has no backward; compute it from variables";

/// Runs the closure and its backward as a new region, and puts back everything that they change.
fn measure(form: &With<'_>, key: &RegionKey, body: impl FnOnce() -> Tensor) -> Result<Costs, Error> {
    if ffi::toma_region_records() {
        let text = format!("checkpoint {key}: cannot be measured inside another region");
        return Err(Error::new(ErrorKind::Unsupported, text));
    }
    if is_dry() {
        let text = format!("checkpoint {key}: cannot be measured in a dry run: measure it before");
        return Err(Error::new(ErrorKind::Unsupported, text));
    }
    cpu::count();
    let running = Arc::new(RunningRegion::default());
    let options = RegionOptions { verify: form.verify, undoes: true, observer: running.clone() };
    let recording = RecordingRegion::begin(|_| Ok(Chosen::default()), options)?;
    let _modes = ModeGuard::new();
    let output = catch_unwind(AssertUnwindSafe(body));
    let is_inside = output.as_ref().is_ok_and(|output| recording.is_inside(output));
    let region = recording.end().expect("it has not ended");
    let region = Arc::new(MeasuredRegion::new(region, running));
    let result = output.map(|output| match () {
        () if !is_inside => Err(refused(key, FOREIGN)),
        () if !output.requires_grad() => Err(refused(key, UNTRAINED)),
        () => backward(&region, output),
    });
    region.undo()?;
    result.unwrap_or_else(|payload| resume_unwind(payload))?;
    let costs = region.costs();
    let unreached = || {
        let text = format!(
            "checkpoint {key}: backward did not reach the first stage: return a tensor that depends on all \
             stages"
        );
        Error::new(ErrorKind::Other, text)
    };
    let costs = costs.ok_or_else(unreached)?;
    let costs =
        costs.map_err(|invalid| Error::new(ErrorKind::Other, format!("checkpoint {key}: {invalid}")))?;
    learned::learn(key, region);
    Ok(costs)
}

fn refused(key: &RegionKey, tensor: &str) -> Error {
    let text = format!("checkpoint {key}: the measured closure returned a tensor that {tensor}");
    Error::new(ErrorKind::Unsupported, text)
}

/// Runs backward with the output as a part of a loss, so that the engine makes the output's gradient.
fn backward(region: &Region, output: Tensor) -> Result<(), Error> {
    region.set_gradients_aside()?;
    let ones = output.f_ones_like()?;
    let loss = (output.f_mul(&ones)?).f_sum(Kind::Float)?;
    drop((output, ones));
    Ok(loss.f_backward()?)
}
