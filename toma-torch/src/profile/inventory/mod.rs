//! Inventory of live tensors, by the names that a program gives.

mod look;
mod rows;

use std::collections::{BTreeMap, HashMap};
use std::sync::PoisonError;

use tch::Tensor;
use tch::nn::VarStore;
use toma_trace::counting::{self, Living};
use toma_trace::holdings::Inventory;

use crate::error::{Error, ErrorKind};
use crate::ffi::{self, DeviceId};
use crate::notes;
use look::{Look, Rank, of_inventory};

/// Begins an inventory of live tensors: one row for each storage, in the layout of `pytorch_memlab`.
///
/// ```
/// use tch::nn::{self, Module as _, VarStore};
/// use tch::{Device, Kind, Tensor};
/// use toma_torch::cpu;
/// use toma_torch::profile::inventory;
/// use toma_trace::Place;
///
/// cpu::count();
/// let variables = VarStore::new(Device::Cpu);
/// let net = nn::linear(variables.root(), 64, 64, nn::LinearConfig::default());
/// let input = Tensor::ones([16, 64], (Kind::Float, Device::Cpu));
/// net.forward(&input).mean(Kind::Float).backward();
///
/// let inventory = inventory().variables(&variables).tensor("input", &input).take()?;
/// let names: Vec<&str> = inventory.items().iter().map(|item| &*item.name).collect();
/// assert_eq!(names, ["weight", "weight.grad", "input", "bias", "bias.grad"]);
/// assert_eq!(inventory.used_bytes(&Place::HOST), cpu::allocated_bytes());
/// println!("{inventory}");
/// # Ok::<(), toma_torch::Error>(())
/// ```
pub fn inventory() -> Stocktaking {
    Stocktaking::default()
}

/// The named tensors of an inventory that is not yet taken.
///
/// A tensor that is named twice, as tied weights are, keeps its first name; variables come before other tensors. The
/// gradient of a tensor is called `weight.grad`, the parts of a sparse one `weight.grad.indices` and
/// `weight.grad.values`. A name that is in use gets a number: `weight#2`.
///
/// A storage is named after a variable in it, otherwise after a gradient; if there are several, after the one that
/// begins first. The others are its aliases, which `{:#}` shows: `weight_hh_l0(->weight_ih_l0)`. Tensors without
/// elements are left out.
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_torch::profile::inventory;
///
/// let images = Tensor::ones([64, 784], (Kind::Float, tch::Device::Cpu));
/// let taken = inventory().tensor("images", &images).device(tch::Device::Cpu).take()?;
/// assert!(taken.to_string().contains("images"));
/// # Ok::<(), toma_torch::Error>(())
/// ```
///
/// # Memory without a named tensor
///
/// CPU memory without a named tensor, such as activations saved by a graph, is listed by its bytes as `unnamed`, if it
/// is [counted](crate::cpu). While a recording runs, it is named after the operator or line of its birth, and states of
/// an [optimizer](super::optimizer) keep their names afterwards. So the sum of all rows is
/// [`cpu::allocated_bytes`](crate::cpu::allocated_bytes) plus the memory that is not counted: tensors from before
/// [`cpu::count`](crate::cpu::count), and memory that the program has lent, as by `from_blob`. If nothing is counted,
/// only named tensors are listed. On other devices all memory without a name is one row. Memory that other threads
/// allocate or free meanwhile may be missing or included.
///
/// A storage that an offload manager has evicted has 0 bytes on its device, and its bytes in a column of their own,
/// [`outside`](toma_trace::holdings::Item::outside_bytes), which is in no sum. The inventory does not fetch it.
///
/// A storage without memory, as in a dry run, has 0 bytes. Of a quantized tensor only the elements are listed.
#[derive(Debug, Default)]
#[must_use = "nothing is looked at until it is taken"]
pub struct Stocktaking {
    named: Vec<(Rank, String, Tensor)>,
    device: Option<tch::Device>,
    /// Names of blocks, by their addresses.
    blocks: BTreeMap<u64, String>,
}

impl Stocktaking {
    /// Adds all variables of a store by their names there, and their gradients.
    pub fn variables(mut self, variables: &VarStore) -> Self {
        self.named
            .extend(in_order(variables).into_iter().map(|(name, tensor)| (Rank::Variable, name, tensor)));
        self
    }

    /// Adds a tensor, and its gradient if it is a leaf.
    pub fn tensor(mut self, name: &str, tensor: &Tensor) -> Self {
        self.named.push((Rank::Other, name.to_owned(), tensor.shallow_clone()));
        self
    }

    /// Lists only this device; the last call counts.
    pub fn device(self, device: tch::Device) -> Self {
        Self { device: Some(device), ..self }
    }

    /// Names blocks of the counting allocator that are known by address alone, if no tensor names them. Blocks of one
    /// name are one row.
    fn blocks(mut self, named: impl IntoIterator<Item = (u64, String)>) -> Self {
        self.blocks.extend(named);
        self
    }

    /// Takes the inventory. Nothing is allocated on any device.
    ///
    /// # Errors
    /// When there is no such device, and for a tensor whose memory cannot be found: one that is undefined, on the
    /// device meta, nested, or of oneDNN's own layout.
    pub fn take(self) -> Result<Inventory, Error> {
        let device = self.device.map(existing).transpose()?;
        let Self { mut named, blocks, .. } = self.blocks(known_blocks());
        named.sort_by_key(|(rank, ..)| *rank);
        let mut look = Look::default();
        for (rank, name, tensor) in &named {
            look.at(*rank, name, tensor)?;
        }
        let place = device.map(DeviceId::place);
        let mut seen = look.seen();
        seen.retain(|seen| place.as_ref().is_none_or(|place| seen.place == *place));
        Ok(rows::inventory(seen, device, &blocks))
    }
}

/// Names from recordings: states of optimizers, labels, and births of blocks that the running recording has observed.
fn known_blocks() -> Vec<(u64, String)> {
    let mut living = Vec::new();
    ffi::each_cpu_block(|block| living.push(block));
    let name = |block: &Living| {
        let noted = notes::noted_at(block.address, block.owner).map(|(_, name)| name);
        noted.or_else(|| counting::origin(block.owner))
    };
    living.iter().filter_map(|block| Some((block.address, name(block)?))).collect()
}

/// Returns the device if it exists.
fn existing(device: tch::Device) -> Result<DeviceId, Error> {
    let id = DeviceId::of(device);
    match ffi::device_stats(id) {
        Err(error) if error.kind() == ErrorKind::NoDevice => Err(of_inventory(&error)),
        // A device without statistics can still be listed.
        _ => Ok(id),
    }
}

/// Returns the trainable variables in the order in which they were made, then the others by name.
fn in_order(variables: &VarStore) -> Vec<(String, Tensor)> {
    let variables = variables.variables_.lock().unwrap_or_else(PoisonError::into_inner);
    let made = variables.trainable_variables.iter().enumerate();
    let made: HashMap<_, _> =
        made.map(|(order, variable)| (ffi::identity(&variable.tensor), order)).collect();
    let named = variables.named_variables.iter();
    let mut named: Vec<_> = named.map(|(name, tensor)| (name.clone(), tensor.shallow_clone())).collect();
    named.sort_by_cached_key(|(name, tensor)| {
        (made.get(&ffi::identity(tensor)).copied().unwrap_or(usize::MAX), name.clone())
    });
    named
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind, Tensor};

    use super::*;
    use crate::cpu;

    #[test]
    fn blocks_are_named_by_their_addresses_where_no_tensor_names_them() {
        cpu::count();
        let [weight, first, second, other] =
            [50_021, 50_021, 50_023, 50_023].map(|size| Tensor::zeros([size], (Kind::Uint8, Device::Cpu)));
        let address = |tensor: &Tensor| u64::try_from(tensor.data_ptr().addr()).unwrap();
        let named = [(&weight, "lost"), (&first, "Adam.weight.exp_avg"), (&second, "line"), (&other, "line")];
        let named = named.map(|(tensor, name)| (address(tensor), name.to_owned()));
        let taken = inventory().tensor("weight", &weight).blocks(named).take().unwrap();
        let rows: Vec<_> = taken.items().iter().map(|item| (&*item.name, item.bytes)).collect();
        for row in [("weight", 50_021), ("Adam.weight.exp_avg", 50_021), ("line (2 storages)", 100_046)] {
            assert!(rows.contains(&row), "{row:?} of {rows:?}");
        }
        assert!(rows.iter().all(|row| row.0 != "lost"), "{rows:?}");
    }
}
