//! Limits the memory of a way.

use tch::Device;
use toma::torch::cpu::{self, Budget};
use toma::torch::offload::{Entered, Manager, Report};

use crate::Result;
use crate::data::Set;
use crate::way::Way;

/// A limit on the bytes of tensors, until it is dropped.
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

    /// Report of the evicted and fetched bytes.
    pub(crate) fn moved(&self) -> Option<Report> {
        self.manager.as_ref().map(|(manager, _)| manager.report())
    }
}

/// Keeps the data on the device, so that the budget is for everything else.
fn managed(bytes: u64, batches: &[Set]) -> Result<(Manager, Entered)> {
    let manager = Manager::new(&toma::torch::Device::new(Device::Cpu));
    let manager = manager.budget(cpu::allocated_bytes() + bytes);
    let entered = manager.enter()?;
    let data: Vec<_> = batches.iter().flat_map(|batch| [&batch.images, &batch.classes]).collect();
    manager.keep(&data);
    Ok((manager, entered))
}
