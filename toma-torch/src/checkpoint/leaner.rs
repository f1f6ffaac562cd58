//! Handle by which the engine requests a leaner plan after an attempt has run out of memory.

use std::sync::Arc;

use toma_core::leaner::Lean;
use toma_plan::checkpoint::{Plan, Solver};

use super::learned::Structure;

/// The current plan, and the budget that it was made for.
#[derive(Debug)]
pub(super) struct Leaner {
    pub(super) known: Arc<Structure>,
    pub(super) plan: Arc<Plan>,
    pub(super) budget_bytes: u64,
    /// Bytes of the leanest plan when this one was chosen.
    pub(super) least_bytes: u64,
}

impl Lean for Leaner {
    /// Makes later plans a fifth leaner than this one, if any plan needs less.
    fn lean(&self) -> bool {
        let (peak, least) = (self.plan.peak_bytes(), self.least_bytes);
        let has_others = !matches!(self.plan.solver(), Some(Solver::KeepAll | Solver::SqrtN));
        let is_leaner = has_others && peak > least;
        if is_leaner {
            self.known.lean(self.budget_bytes, least.max(peak - peak / 5));
        }
        is_leaner
    }
}
