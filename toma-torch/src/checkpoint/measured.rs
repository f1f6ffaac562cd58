//! A region that has run, with the measurements of its stages.

use std::ops::Deref;
use std::sync::Arc;

use toma_plan::checkpoint::recording::Measured;
use toma_plan::checkpoint::{Costs, InvalidCosts};

use super::running::Running;
use crate::ffi::Region;

#[derive(Debug)]
pub(super) struct MeasuredRegion {
    region: Region,
    running: Arc<Running>,
}

impl MeasuredRegion {
    pub(super) fn new(region: Region, running: Arc<Running>) -> Self {
        Self { region, running }
    }

    pub(super) fn stages(&self) -> Vec<Measured> {
        self.running.state().ledger.stages().to_vec()
    }

    /// Bytes of the gradients of variables that the costs count.
    pub(super) fn counted_gradient_bytes(&self) -> u64 {
        let figures = self.region.figures();
        self.running.state().ledger.counted_gradient_bytes(figures.first_gradient_bytes)
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
