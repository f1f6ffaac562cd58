//! State of a region while its graph lives: measurements of its stages, bytes promised to it, and progress reported to
//! the surrounding attempt.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use toma_core::device::{self, Promise};
use toma_core::leaner;
use toma_plan::checkpoint::Plan;
use toma_plan::checkpoint::recording::{Boundary, Draft, Ledger, Readings, Recording};

use crate::ffi::{Moment, Observes};
use crate::memory::Device;

#[derive(Debug, Default)]
pub(super) struct RunningRegion(Mutex<RegionState>);

#[derive(Debug, Default)]
pub(super) struct RegionState {
    /// `None` while the region is measured.
    planned: Option<PromisedPlan>,
    /// Stages of a region without a plan.
    draft: Draft,
    pub(super) ledger: Ledger,
}

#[derive(Debug)]
struct PromisedPlan {
    plan: Arc<Plan>,
    /// Dropped when the graph is gone.
    promise: Option<Promise>,
}

impl RunningRegion {
    pub(super) fn begin(&self, plan: Arc<Plan>, on: &Device) {
        let promise = Some(device::promise(on, plan.peak_bytes()));
        self.state().planned = Some(PromisedPlan { plan, promise });
    }

    /// The region's plan; `None` while the region is measured.
    pub(super) fn plan(&self) -> Option<Arc<Plan>> {
        self.state().planned.as_ref().map(|planned| planned.plan.clone())
    }

    pub(super) fn state(&self) -> MutexGuard<'_, RegionState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PromisedPlan {
    /// Updates the promised bytes when a stage, a recomputation or a backward begins: the peak of the plan, less the
    /// bytes allocated already. Drops the promise when the region is over.
    fn observe(&mut self, moment: &Moment<'_>, allocated_bytes: i64) {
        match (moment, &mut self.promise) {
            (Moment::Over, promise) => *promise = None,
            (Moment::StageBegins | Moment::Repeated { .. } | Moment::BackwardBegins(_), Some(promise)) => {
                let allocated_bytes = u64::try_from(allocated_bytes).unwrap_or(0);
                promise.set(self.plan.peak_bytes().saturating_sub(allocated_bytes));
            }
            _ => {}
        }
    }
}

impl Observes for RunningRegion {
    fn observe(&self, moment: Moment<'_>, now: Readings, recording: Recording<'_>) -> bool {
        if let Moment::Repeated { run, .. } = &moment {
            leaner::repeated(Duration::from_nanos(run.elapsed_ns));
        }
        let mut state = self.state();
        if let Some(planned) = &mut state.planned {
            planned.observe(&moment, now.allocated_bytes);
        }
        state.answer(moment, now, recording)
    }
}

impl RegionState {
    fn answer(&mut self, moment: Moment<'_>, now: Readings, recording: Recording<'_>) -> bool {
        let Self { draft, ledger, .. } = self;
        match moment {
            Moment::Operator { merges } => {
                let boundary = draft.boundary(&recording);
                if let Some(last) = merges.last_mut() {
                    *last = boundary == Boundary::Moved;
                }
                return boundary != Boundary::None;
            }
            Moment::StageEnds(run) => {
                ledger.stage_ends(run);
                return recording.drops_input();
            }
            Moment::StageBegins => ledger.stage_begins(&recording, now.allocated_bytes),
            Moment::Joins(first) => ledger.joins(first),
            Moment::RegionEnds { last, merges } => {
                ledger.stage_ends(last);
                for stage in ledger.ends(recording, now.lacking_bytes) {
                    merges[stage as usize] = true;
                }
            }
            Moment::Repeated { stage, saves, run } => ledger.repeated(stage, saves, run),
            Moment::BackwardArrives { fallen_bytes } => {
                ledger.backward_arrives(&recording, now.allocated_bytes, fallen_bytes);
            }
            Moment::BackwardBegins(stage) => ledger.backward_begins(&recording, stage, now),
            Moment::BackwardEnds { stage, run, is_counted } => ledger.backward_ends(stage, run, is_counted),
            Moment::Over => {}
        }
        false
    }
}
