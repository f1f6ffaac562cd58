//! Operators that run where the bytes of their arguments are, instead of on the tensors' device.
//!
//! # Why
//!
//! A table whose rows are gathered is left out of the recorded step, even while it is on the device, because it may be
//! on the host in the next repetition. So the step repeats itself, and such a table is the first to be evicted.
//!
//! The source of the rows is shared, not locked: another thread may fetch the table meanwhile, and neither waits.

/// Controls which operators run outside of a device because that moves fewer bytes.
///
/// `embedding`, `index_select` in the first dim and `index` by one integer tensor read a few rows of a table that may
/// be most of a model. Where no gradient is required, the table need not be on the device: the rows are gathered on the
/// host, and only the rows move. A table in a [weights file](crate::offload::Manager::read_safetensors) stays in the
/// file, and only the requested rows are read.
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_torch::offload::{Governor, Manager, Residency};
/// use toma_torch::{Device, cpu};
///
/// let manager = Manager::new(&Device::new(tch::Device::Cpu)).governor(Governor::Gathers);
/// let _entered = manager.enter()?;
/// let table = manager.adopt(&Tensor::arange(1 << 20, (Kind::Float, tch::Device::Cpu)).view([1 << 10, 1 << 10]));
/// table.offload()?;
/// let rows = table.index_select(0, &Tensor::from_slice(&[7_i64, 1]));
/// assert_eq!(rows.double_value(&[0, 0]), f64::from(7 << 10));
/// assert_eq!(table.residency(), Residency::Offloaded);
/// assert_eq!((manager.report().gathers, manager.report().bytes_in), (1, 0));
/// # Ok::<(), toma_torch::Error>(())
/// ```
///
/// The result is the same bit for bit, because the same host kernel copies the rows. A table that is on the device is
/// read there. A table that is smaller than the rows and their indices together is fetched, as for any other operator,
/// and so is a table whose gradient is required, because its backward is as large as the table anyhow.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Governor {
    /// Every operator finds all of its arguments on the device.
    Off,
    /// Rows are gathered where the table is. The default, because a manager is meant to move few bytes, and then a
    /// model whose table alone exceeds the budget runs without any setting.
    #[default]
    Gathers,
}
