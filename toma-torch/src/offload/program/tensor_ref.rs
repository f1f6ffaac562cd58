//! A handle to a tensor whose memory is watched.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tch::Tensor;
use toma_core::memory::MemorySource as _;
use toma_core::predict::is_dry;

use crate::error::{Error, ErrorKind};
use crate::ffi::{self, Use};
use crate::offload::moves::operators;
use crate::offload::moves::registry;
use crate::offload::moves::state::ManagerState;
use crate::offload::moves::table::{Entry, Location};

/// Location of a tensor's memory.
///
/// ```
/// use toma_torch::offload::{Residency, TensorRef};
///
/// fn is_ready(tensor: &TensorRef) -> bool {
///     matches!(tensor.residency(), Residency::Resident | Residency::Foreign)
/// }
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Residency {
    /// On its device.
    Resident,
    /// Evicted, or moving.
    Offloaded,
    /// Evicted until it is resumed.
    Parked,
    /// Not managed: it is on another device, its memory is not the allocator's, or this is a dry run.
    Foreign,
}

/// A tensor with the state of its memory, which is shared with its views.
///
/// It derefs to the tensor. For a sparse tensor the memory is that of the values and the indices.
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_torch::offload::{Manager, Residency};
/// use toma_torch::{Device, cpu};
///
/// let manager = Manager::new(&Device::new(tch::Device::Cpu)).budget(cpu::allocated_bytes() + (8 << 20));
/// let _entered = manager.enter()?;
/// let table = manager.adopt(&Tensor::ones([1 << 18], (Kind::Float, tch::Device::Cpu)));
/// table.offload()?;
/// assert_eq!(table.residency(), Residency::Offloaded);
/// assert_eq!(table.sum(Kind::Float).double_value(&[]), f64::from(1 << 18)); // fetches it
/// # Ok::<(), toma_torch::Error>(())
/// ```
pub struct TensorRef {
    tensor: Tensor,
    shared: Arc<ManagerState>,
}

impl TensorRef {
    pub(crate) fn new(shared: &Arc<ManagerState>, tensor: &Tensor, name: Option<&str>) -> Self {
        let shared = Arc::clone(shared);
        // Tensors of a dry run have no memory to move.
        let moves = !ffi::toma_offload_is_forked() && !is_dry();
        let own = |storage: &Use<'_>| moves && storage.device == shared.id;
        for storage in Use::of(tensor).filter(own) {
            let mut table = shared.table();
            let Some(entry) = table.entry(&storage) else { continue };
            entry.name = name.map(Arc::from).or_else(|| entry.name.take());
            entry.is_kept |= entry.bytes < shared.min_bytes.load(Ordering::Relaxed);
            let gone = table.swept_if_many();
            drop(table);
            drop(gone);
        }
        Self { tensor: tensor.shallow_clone(), shared }
    }

    /// Ids of its current storages. They can change, because `set_data` gives a tensor another storage.
    fn ids(&self) -> Vec<u64> {
        let own = Use::of(&self.tensor).filter(|storage| storage.device == self.shared.id && !is_dry());
        own.filter(|storage| self.shared.table().entry(storage).is_some())
            .map(|storage| storage.id())
            .collect()
    }

    pub(crate) fn set_kept(self, is_kept: bool) -> Self {
        self.each(|entry| entry.is_kept = is_kept);
        self
    }

    fn each<T>(&self, mut seen: impl FnMut(&mut Entry) -> T) -> Vec<T> {
        let ids = self.ids();
        let mut table = self.shared.table();
        let of = |id| table.entries.get_mut(id).map(&mut seen);
        ids.iter().filter_map(of).collect()
    }

    /// Returns the location of its memory.
    pub fn residency(&self) -> Residency {
        let evicted = self.each(|entry| entry.location);
        let is = |wanted: fn(&Location) -> bool| evicted.iter().any(wanted);
        match () {
            () if evicted.is_empty() => Residency::Foreign,
            () if is(|location| *location == Location::Parked) => Residency::Parked,
            () if is(|location| *location != Location::Resident) => Residency::Offloaded,
            () => Residency::Resident,
        }
    }

    /// Returns the bytes of its memory, wherever they are.
    pub fn bytes(&self) -> u64 {
        self.each(|entry| entry.bytes).iter().sum()
    }

    /// Returns how many operators have used its memory.
    pub fn uses(&self) -> u64 {
        self.each(|entry| entry.uses).into_iter().max().unwrap_or(0)
    }

    /// Returns how many operators have run since the last one that used it.
    pub fn age(&self) -> u64 {
        let now = self.shared.table().now;
        // Another thread may have used it since.
        self.each(|entry| now.saturating_sub(entry.last_use)).into_iter().min().unwrap_or(0)
    }

    /// Fetches its memory to the device, and evicts other storages to make room.
    ///
    /// # Errors
    /// Out of memory if nothing more can be evicted.
    pub fn fetch(&self) -> Result<(), Error> {
        registry::check_process()?;
        self.ids().iter().try_for_each(|id| self.shared.fetch(*id, false))
    }

    /// Evicts its memory. Does nothing if it is evicted already, and in a dry run.
    ///
    /// # Errors
    /// If it cannot be evicted: it is in use or pinned, it stays on the device (by `keep`, or because it is smaller than
    /// `min_bytes`), it is not the manager's, or the host has no room.
    pub fn offload(&self) -> Result<(), Error> {
        registry::check_process()?;
        let ids = self.ids();
        if ids.is_empty() {
            return if is_dry() { Ok(()) } else { Err(self.refused("is not this manager's")) };
        }
        operators::end_lent_pins();
        for id in ids {
            // Another thread may be reading it for the moment.
            self.shared.offload(id, self.shared.still())?;
        }
        let stays = self.each(|entry| entry.location == Location::Resident && entry.bytes > 0);
        if stays.contains(&true) { Err(self.refused("is in use, pinned or kept")) } else { Ok(()) }
    }

    fn refused(&self, why: &str) -> Error {
        let words = self.each(|entry| entry.words()).join(" and ");
        let words = if words.is_empty() { "a tensor".to_owned() } else { words };
        Error::new(ErrorKind::Unsupported, format!("offload: {words} {why} on {}", self.shared.device.name()))
    }

    /// Fetches its memory and keeps it on the device until the guard is dropped.
    ///
    /// Needed by code that writes the memory by its address, and by code that reads it by its address on a thread that
    /// has not entered. The memory counts as written.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    pub fn pin(&self) -> Result<Pin, Error> {
        registry::check_process()?;
        let ids = self.ids().into_iter().filter(|id| self.shared.pin(*id)).collect();
        let pin = Pin { shared: Arc::clone(&self.shared), ids };
        self.fetch()?;
        Ok(pin)
    }

    /// Returns true if it has exactly one storage, as [`read`](Self::read) needs.
    pub(crate) fn has_one_memory(&self) -> bool {
        self.ids().len() == 1
    }

    /// Copies the bytes of its memory to `out` from where they are, without fetching them.
    ///
    /// For a contiguous tensor that has its memory alone, these bytes are its elements.
    ///
    /// # Errors
    /// If `out` has another length, or the tensor does not have exactly one storage of the manager.
    pub fn read(&self, out: &mut [u8]) -> Result<(), Error> {
        registry::check_process()?;
        let [id] = self.ids()[..] else { return Err(self.refused("has no one memory to read")) };
        self.shared.read(id, out)
    }

    /// Ends the watch: removes the name, and allows eviction again if the tensor was kept.
    pub fn forget(self) {
        let min_bytes = self.shared.min_bytes.load(Ordering::Relaxed);
        self.each(|entry| (entry.name, entry.is_kept) = (None, entry.bytes < min_bytes));
    }
}

impl Deref for TensorRef {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        &self.tensor
    }
}

impl AsRef<Tensor> for TensorRef {
    fn as_ref(&self) -> &Tensor {
        &self.tensor
    }
}

impl fmt::Debug for TensorRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.tensor, f)
    }
}

impl fmt::Display for TensorRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.tensor, f)
    }
}

/// Guard that keeps memory on its device.
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_torch::offload::Manager;
/// use toma_torch::{Device, cpu};
///
/// let manager = Manager::new(&Device::new(tch::Device::Cpu)).budget(cpu::allocated_bytes() + (8 << 20));
/// let _entered = manager.enter()?;
/// let table = manager.adopt(&Tensor::ones([1 << 18], (Kind::Float, tch::Device::Cpu)));
/// let pin = table.pin()?;
/// // ... code that reads the memory by its address ...
/// drop(pin);
/// # Ok::<(), toma_torch::Error>(())
/// ```
#[must_use = "the memory is held until this guard is dropped"]
pub struct Pin {
    shared: Arc<ManagerState>,
    ids: Vec<u64>,
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pin").field("storages", &self.ids.len()).finish_non_exhaustive()
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if ffi::toma_offload_is_forked() {
            return;
        }
        self.shared.written(&self.ids);
        self.shared.unpin(&self.ids);
    }
}
