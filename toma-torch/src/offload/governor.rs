//! What runs where its bytes are, rather than where its tensors are.
//!
//! # Why
//!
//! A table whose rows are taken is in no step, also where it is on the device. A step that finds it there
//! today may find it outside tomorrow. So the step repeats itself, and such a table is the first to leave.
//!
//! What rows are taken of is shared, not locked. Another thread may bring the table back meanwhile, and
//! nothing waits.

/// What is computed outside of a device, where that moves fewer bytes.
///
/// `embedding`, `index_select` in the first dim and `index` by one tensor of whole numbers read a few rows of a table
/// that may be most of a model. Where no gradient is wanted, they need not have it on the device: the rows are taken on
/// the host, and only they move. A table in a [weights file](super::Manager::read_safetensors) stays there, and those
/// rows are read that are asked for.
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
/// The result is the same bit for bit: rows are copied, by the same kernel of the host. A table that is on the device
/// is read there. One that is smaller than the rows and their numbers together comes back, as for any other operator,
/// and so does one whose gradient is wanted: its backward is of its size anyhow.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Governor {
    /// Every operator finds all of its arguments on the device.
    Off,
    /// Rows are taken where the table is. The default: a manager is there to move little, and a model whose table alone
    /// exceeds the budget runs without a word of its own.
    #[default]
    Gathers,
}
