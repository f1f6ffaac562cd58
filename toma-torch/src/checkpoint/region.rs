//! The life of a region: plain or recorded, planned where it is known, and learned from.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use tch::{Kind, Tensor};
use toma_core::memory::MemorySource as _;
use toma_core::predict::is_dry;
use toma_core::{device, leaner};
use toma_plan::checkpoint::{Costs, Plan, TooSmall};

use super::With;
use super::knowledge::{self, Place, Structure};
use super::leaner::Leaner;
use super::measured;
use super::report::{self, Ran};
use super::running::Running;
use crate::cpu;
use crate::error::{Error, ErrorKind};
use crate::ffi::{self, Chosen, DeviceId, RecordingRegion, Region, RegionOptions};
use crate::memory::Device;

/// Left of what is free, for what was not measured.
const HEAD_ROOM_PERCENT: u64 = 2;

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
    let choose = |print, device| choose(form, &place, print, device, &running);
    let options = RegionOptions { verify: form.verify, undoes: false, hears: running.clone() };
    let recording = RecordingRegion::begin(choose, options)?;
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

/// What is known when the first operator is: its structure, and the plan for it.
fn choose(
    form: &With<'_>,
    place: &Place,
    print: u64,
    device: DeviceId,
    running: &Running,
) -> Result<Chosen, Error> {
    let elsewhere = || knowledge::elsewhere(print, form.plan?.stages());
    let Some(known) = knowledge::structure(place, print).or_else(elsewhere) else {
        return Ok(Chosen::default());
    };
    let device = Device::new(device.device());
    let plan = plan_for(form, place, &known, &device)?;
    let stages = known.cuts.len() + 1;
    if plan.stages() != stages {
        let text = format!("checkpoint {place}: a plan of {} stages for a region of {stages}", plan.stages());
        return Err(Error::new(ErrorKind::Other, text));
    }
    let actions = measured::actions_of(&plan);
    running.begin(plan, &device);
    Ok(Chosen { prints: known.prints.clone(), cuts: known.cuts.clone(), actions })
}

/// The plan that was given, or the fastest that fits. Of those the engine may ask for a leaner one.
fn plan_for(
    form: &With<'_>,
    place: &Place,
    known: &Arc<Structure>,
    device: &Device,
) -> Result<Arc<Plan>, Error> {
    if let Some(plan) = form.plan {
        return Ok(Arc::new(plan.clone()));
    }
    let budget_bytes = form.budget_bytes.unwrap_or_else(|| free_bytes(device));
    let plan = known.plan(budget_bytes, form.solver).map_err(|small| too_small(place, &small))?;
    leaner::offer(Arc::new(Leaner { known: known.clone(), plan: plan.clone(), budget_bytes }));
    Ok(plan)
}

/// What is free and not promised to other regions, less some for what was not measured.
fn free_bytes(device: &Device) -> u64 {
    let free = device.read().map_or(u64::MAX, |reading| reading.free_bytes);
    free.saturating_sub(device::promised_bytes(device)) / 100 * (100 - HEAD_ROOM_PERCENT)
}

/// In words that mean out of memory, whatever carries them.
fn too_small(place: &Place, small: &TooSmall) -> Error {
    Error::new(ErrorKind::OutOfMemory, format!("CPU out of memory: checkpoint {place}: {small}"))
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
    let recording = RecordingRegion::begin(|_, _| Ok(Chosen::default()), options)?;
    let output = catch_unwind(AssertUnwindSafe(body));
    let region = recording.end().expect("it has not ended").into();
    let result = output.map(|output| backward(&region, output));
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

/// As if the output were a part of a loss: its gradient is made by the engine.
fn backward(region: &Arc<Region>, output: Tensor) -> Result<(), Error> {
    region.set_gradients_aside();
    let ones = output.f_ones_like()?;
    let loss = (output.f_mul(&ones)?).f_sum(Kind::Float)?;
    drop((output, ones));
    Ok(loss.f_backward()?)
}
