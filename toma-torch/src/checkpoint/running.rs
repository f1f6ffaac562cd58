//! State of a region while its graph lives: bytes promised to it, and progress reported to the surrounding attempt.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use toma_core::device::{self, Promise};
use toma_core::leaner;
use toma_plan::checkpoint::Plan;

use crate::ffi::{Hears, Progress};
use crate::memory::Device;

#[derive(Debug, Default)]
pub(super) struct Running(Mutex<Option<Planned>>);

#[derive(Debug)]
struct Planned {
    plan: Arc<Plan>,
    /// Dropped when the graph is gone.
    promise: Option<Promise>,
}

impl Running {
    pub(super) fn begin(&self, plan: Arc<Plan>, on: &Device) {
        let promise = Some(device::promise(on, plan.peak_bytes()));
        *self.planned() = Some(Planned { plan, promise });
    }

    /// The region's plan; `None` while the region is measured.
    pub(super) fn plan(&self) -> Option<Arc<Plan>> {
        self.planned().as_ref().map(|planned| planned.plan.clone())
    }

    fn planned(&self) -> MutexGuard<'_, Option<Planned>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hears for Running {
    fn hear(&self, progress: Progress) {
        if progress.repeated_ns > 0 {
            leaner::repeated(Duration::from_nanos(progress.repeated_ns));
        }
        let mut planned = self.planned();
        let Some(Planned { plan, promise }) = &mut *planned else { return };
        if progress.is_over {
            *promise = None;
        } else if let Some(promise) = promise {
            promise.set(plan.peak_bytes().saturating_sub(progress.allocated_bytes));
        }
    }
}
