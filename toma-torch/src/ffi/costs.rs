//! Moments of a region that the shim reports, with the facts that decisions are made from.

use std::ffi::c_void;
use std::slice;
use std::sync::Arc;

use toma_plan::checkpoint::recording::{Readings, Recorded, Recording, Run, Slot, Value};

use super::slice_of;

/// `toma_facts` of the shim.
#[repr(C)]
struct RawFacts {
    ops: u32,
    values: *const Value,
    value_count: usize,
    slots: *const Slot,
    slot_count: usize,
    stages: *const Recorded,
    stage_count: usize,
}

/// `toma_region_report` of the shim.
#[repr(C)]
pub(super) struct RawReport {
    moment: u32,
    stage: u32,
    run: Run,
    now: Readings,
    is_so: bool,
    facts: RawFacts,
    merges: *mut bool,
}

/// A moment of a region. Two of them are questions.
#[derive(Debug)]
pub(crate) enum Moment<'a> {
    /// Without a plan: does the next operator begin a stage?
    Operator {
        /// To be set for the last stage if it is merged with the one before, because it began too early.
        merges: &'a mut [bool],
    },
    /// Does the first run drop the input of the stage that ends?
    StageEnds(Run),
    StageBegins,
    /// The stages from this one on go on as one.
    Joins(u32),
    RegionEnds {
        last: Run,
        /// To be set for stages that are merged with the one before.
        merges: &'a mut [bool],
    },
    Repeated {
        stage: u32,
        saves: bool,
        run: Run,
    },
    BackwardArrives {
        /// Bytes by which the peak since the end of the region was higher than the bytes at this moment.
        fallen_bytes: u64,
    },
    BackwardBegins(u32),
    BackwardEnds {
        stage: u32,
        run: Run,
        is_counted: bool,
    },
    /// The last report: the graph of the region is gone.
    Over,
}

impl<'a> Moment<'a> {
    fn of(raw: &RawReport, merges: &'a mut [bool]) -> Self {
        let &RawReport { moment, stage, run, is_so, .. } = raw;
        match moment {
            0 => Self::Operator { merges },
            1 => Self::StageEnds(run),
            2 => Self::StageBegins,
            3 => Self::Joins(stage),
            4 => Self::RegionEnds { last: run, merges },
            5 => Self::Repeated { stage, saves: is_so, run },
            6 => Self::BackwardArrives { fallen_bytes: run.saving_peak_bytes },
            7 => Self::BackwardBegins(stage),
            8 => Self::BackwardEnds { stage, run, is_counted: is_so },
            _ => Self::Over,
        }
    }
}

/// Receives the moments of a region, on the thread that works. It must not panic.
pub(crate) trait Observes: Send + Sync {
    /// Returns the answer to a question, otherwise any. The recording of a known structure is empty.
    fn observe(&self, moment: Moment<'_>, now: Readings, recording: Recording<'_>) -> bool;
}

pub(super) extern "C" fn observe(guest: *mut c_void, report: &RawReport) -> bool {
    let guest = guest.cast::<Arc<dyn Observes>>();
    let RawFacts { ops, values, value_count, slots, slot_count, stages, stage_count } = report.facts;
    // SAFETY: the shim lends so many until this returns.
    let values = unsafe { slice_of(values, value_count) };
    // SAFETY: see above.
    let slots = unsafe { slice_of(slots, slot_count) };
    // SAFETY: see above.
    let stages = unsafe { slice_of(stages, stage_count) };
    let recording = Recording { ops, values: values.into(), slots: slots.into(), stages: stages.into() };
    let merges = if report.merges.is_null() {
        Default::default()
    } else {
        // SAFETY: there is one for each stage, which nothing else uses until this returns.
        unsafe { slice::from_raw_parts_mut(report.merges, stage_count) }
    };
    let moment = Moment::of(report, merges);
    let is_over = matches!(moment, Moment::Over);
    // SAFETY: `begin` passed the box on, and it lives until the last report.
    let answer = unsafe { &*guest }.observe(moment, report.now, recording);
    if is_over {
        // SAFETY: nothing uses it any more, and it was made by a box.
        drop(unsafe { Box::from_raw(guest) });
    }
    answer
}
