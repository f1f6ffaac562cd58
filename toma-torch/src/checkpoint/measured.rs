//! A region that has run, with the measurements of its stages.

use std::ops::Deref;
use std::sync::Arc;

use toma_plan::checkpoint::recording::Measured;
use toma_plan::checkpoint::{Costs, InvalidCosts};

use super::running::RunningRegion;
use crate::ffi::Region;

#[derive(Debug)]
pub(super) struct MeasuredRegion {
    region: Region,
    running: Arc<RunningRegion>,
}

impl MeasuredRegion {
    pub(super) fn new(region: Region, running: Arc<RunningRegion>) -> Self {
        Self { region, running }
    }

    pub(super) fn stages(&self) -> Vec<Measured> {
        self.running.state().ledger.stages().to_vec()
    }

    /// Bytes of the gradients of all variables, and of those that the costs count.
    pub(super) fn gradient_bytes(&self) -> [u64; 2] {
        let figures = self.region.figures();
        let (all_bytes, first_bytes) = (figures.variable_gradient_bytes, figures.first_gradient_bytes);
        [all_bytes, self.running.state().ledger.counted_gradient_bytes(all_bytes, first_bytes)]
    }

    /// Returns the costs of a region whose whole backward has run, otherwise `None`.
    pub(super) fn costs(&self) -> Option<Result<Costs, InvalidCosts>> {
        // Read before the lock, under which the region reports while its figures are locked.
        let figures = self.region.figures();
        let running = self.running.state();
        let costs = || running.ledger.costs(figures.input_gradient_bytes, figures.first_gradient_bytes);
        figures.is_over.then(costs).flatten()
    }
}

impl Deref for MeasuredRegion {
    type Target = Region;

    fn deref(&self) -> &Region {
        &self.region
    }
}
