//! What holds a way to its memory.

use tch::Device;
use toma::torch::cpu::{self, Budget};
use toma::torch::offload::{Entered, Manager, Report};

use crate::Result;
use crate::data::Set;
use crate::way::Way;

/// As long as it lives, tensors take no more.
pub(crate) struct Limit {
    manager: Option<(Manager, Entered)>,
    _budget: Option<Budget>,
}

impl Limit {
    pub(crate) fn of(way: Way, bytes: Option<u64>, batches: &[Set]) -> Result<Self> {
        let budget = bytes.filter(|_| way != Way::Offload).map(Budget::beyond_allocated);
        let manager =
            bytes.filter(|_| way == Way::Offload).map(|bytes| managed(bytes, batches)).transpose()?;
        Ok(Self { manager, _budget: budget })
    }

    /// What has left, and come back.
    pub(crate) fn moved(&self) -> Option<Report> {
        self.manager.as_ref().map(|(manager, _)| manager.report())
    }
}

/// The data stay, so that the budget is of all else.
fn managed(bytes: u64, batches: &[Set]) -> Result<(Manager, Entered)> {
    let manager = Manager::new(&toma::torch::Device::new(Device::Cpu));
    let manager = manager.budget(cpu::allocated_bytes() + bytes);
    let entered = manager.enter()?;
    let data: Vec<_> = batches.iter().flat_map(|batch| [&batch.images, &batch.classes]).collect();
    manager.keep(&data);
    Ok((manager, entered))
}
