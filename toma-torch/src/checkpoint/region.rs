//! The life of a region: plain or recorded, planned where it is known, and learned from.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use tch::{Kind, Tensor};
use toma_core::leaner;
use toma_core::predict::is_dry;
use toma_plan::checkpoint::Costs;

use super::With;
use super::choosing::Choosing;
use super::knowledge::{self, Place};
use super::measured;
use super::report::{self, Ran};
use super::running::Running;
use crate::cpu;
use crate::error::{Error, ErrorKind};
use crate::ffi::{self, Chosen, RecordingRegion, Region, RegionOptions};

/// Runs a closure as a region, where there is something to repeat.
pub(super) fn run<R>(form: &With<'_>, place: Place, body: impl FnOnce() -> R) -> Result<R, Error> {
    if ffi::records_region() {
        let _stage = StageOf::begin();
        return Ok(body());
    }
    if !form.enabled || is_dry() || toma_core::private::is_disabled() || !ffi::is_grad_enabled() {
        return Ok(body());
    }
    recorded(form, place, body)
}

fn recorded<R>(form: &With<'_>, place: Place, body: impl FnOnce() -> R) -> Result<R, Error> {
    cpu::count();
    if form.keep_size {
        leaner::keep_size();
    }
    let running = Arc::new(Running::default());
    let mut choosing = Choosing::new(form, &place, &running);
    let options = RegionOptions { verify: form.verify, undoes: false, hears: running.clone() };
    let recording = RecordingRegion::begin(|begun| choosing.choose(begun), options)?;
    let value = body();
    let region = recording.end().map(Arc::new);
    if let Some(region) = region {
        let plan = running.plan();
        if plan.is_none() {
            knowledge::learn(&place, region.clone());
        } else if region.figures().differs != u64::MAX {
            knowledge::differed(&place, &region);
        }
        report::set_last(Ran { place, region, plan });
    }
    Ok(value)
}

/// A stage of the region around it.
struct StageOf;

impl StageOf {
    fn begin() -> Self {
        ffi::cut_region(0);
        Self
    }
}

impl Drop for StageOf {
    fn drop(&mut self) {
        ffi::cut_region(0);
    }
}

/// Runs the closure and its backward as a new region, and puts back all that they change.
pub(super) fn measure(form: &With<'_>, place: &Place, body: impl FnOnce() -> Tensor) -> Result<Costs, Error> {
    if ffi::records_region() {
        let text = format!("checkpoint {place}: cannot be measured inside another region");
        return Err(Error::new(ErrorKind::Unsupported, text));
    }
    cpu::count();
    let options = RegionOptions { verify: form.verify, undoes: true, hears: Arc::new(Running::default()) };
    let recording = RecordingRegion::begin(|_| Ok(Chosen::default()), options)?;
    let output = catch_unwind(AssertUnwindSafe(body));
    let is_inside = output.as_ref().is_ok_and(|output| recording.is_inside(output));
    let region = recording.end().expect("it has not ended").into();
    let result = output.map(|output| if is_inside { backward(&region, output) } else { Err(foreign(place)) });
    region.undo()?;
    result.unwrap_or_else(|payload| resume_unwind(payload))?;
    let costs = measured::costs_of(&region);
    let unreached = || "checkpoint: backward has not come to the first stage that it needs";
    let costs = costs.ok_or_else(|| Error::new(ErrorKind::Other, unreached().into()))?;
    let costs =
        costs.map_err(|invalid| Error::new(ErrorKind::Other, format!("checkpoint {place}: {invalid}")))?;
    knowledge::learn(place, region);
    Ok(costs)
}

fn foreign(place: &Place) -> Error {
    let text = format!(
        "checkpoint {place}: the measured closure returned a tensor that it did not make, whose backward would run \
         through a graph from outside; return what the closure computes"
    );
    Error::new(ErrorKind::Unsupported, text)
}

/// As if the output were a part of a loss: its gradient is made by the engine.
fn backward(region: &Arc<Region>, output: Tensor) -> Result<(), Error> {
    region.set_gradients_aside();
    let ones = output.f_ones_like()?;
    let loss = (output.f_mul(&ones)?).f_sum(Kind::Float)?;
    drop((output, ones));
    Ok(loss.f_backward()?)
}
