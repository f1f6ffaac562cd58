//! Parks all storages of a device, so that another program can have its memory, and resumes them.

use std::fmt;
use std::sync::Arc;

use toma_core::memory::MemorySource as _;

use super::manager::Manager;
use crate::error::{Error, ErrorKind};
use crate::ffi::{self, Aside, DeviceId};
use crate::memory::Device;
use crate::offload::moves::callbacks::Moving;
use crate::offload::moves::operators;
use crate::offload::moves::parking::{ParkedStorage, Stays};
use crate::offload::moves::registry;
use crate::offload::moves::state::ManagerState;

impl Manager {
    /// Evicts everything from the device (variables, gradients, optimizer state and saved activations) and returns the
    /// memory to the system.
    ///
    /// On a CPU the blocks stay in memory, as for evicted storages: see [`Manager`].
    ///
    /// Storages keep their tensors, sizes and device. Until they are resumed, using one is an error that names it.
    /// Tensors under [`keep`](Self::keep) are parked, too. If parking fails, nothing has changed.
    ///
    /// ```
    /// use tch::{Kind, Tensor};
    /// use toma_torch::Device;
    /// use toma_torch::offload::Manager;
    ///
    /// let manager = Manager::new(&Device::new(tch::Device::Cpu));
    /// let _entered = manager.enter()?;
    /// let weights = Tensor::ones([1 << 18], (Kind::Float, tch::Device::Cpu));
    /// let parked = manager.park()?;
    /// assert_eq!(parked.bytes(), 1 << 20);
    /// // Another program has the device.
    /// parked.resume()?;
    /// assert_eq!(weights.sum(Kind::Double).double_value(&[]), f64::from(1 << 18));
    /// # Ok::<(), toma_torch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If storages are in use or pinned, which the message names. Out of memory if the host has no room.
    pub fn park(&self) -> Result<Parked, Error> {
        Parked::new(self.shared())
    }
}

/// Evicts everything that a device's manager knows: see [`Manager::park`].
///
/// libtorch keeps no list of its storages. A program that is to be parked makes a [`Manager`] and enters it before its
/// first tensor; the manager needs no budget. This function is for code that has no handle of the manager.
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_torch::offload::{self, Manager};
/// use toma_torch::{Device, cpu};
///
/// let device = Device::new(tch::Device::Cpu);
/// let manager = Manager::new(&device).budget(cpu::allocated_bytes() + (8 << 20));
/// let _entered = manager.enter()?;
/// let weight = Tensor::ones([1 << 18], (Kind::Float, tch::Device::Cpu));
/// let parked = offload::park(&device)?; // here another program has the device
/// parked.resume()?;
/// assert_eq!(weight.sum(Kind::Float).double_value(&[]), f64::from(1 << 18));
/// # Ok::<(), toma_torch::Error>(())
/// ```
///
/// # Errors
/// As [`Manager::park`], and if the device has no manager that has been entered.
pub fn park(device: &Device) -> Result<Parked, Error> {
    let id = DeviceId::of(device.device());
    let shared = registry::of(id).ok_or_else(|| {
        let message = format!(
            "park: {} has no manager: make one and enter it before the first tensor, since libtorch keeps no list \
             of storages",
            device.name()
        );
        Error::new(ErrorKind::Unsupported, message)
    })?;
    Parked::new(&shared)
}

/// Storages that are off their device until they are resumed.
///
/// Dropped without [`resume`](Self::resume), they become ordinary evicted storages, which operators fetch.
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_torch::offload::{Manager, Parked};
/// use toma_torch::{Device, cpu};
///
/// let manager = Manager::new(&Device::new(tch::Device::Cpu)).budget(cpu::allocated_bytes() + (8 << 20));
/// let _entered = manager.enter()?;
/// let weight = Tensor::ones([1 << 18], (Kind::Float, tch::Device::Cpu));
/// let parked: Parked = manager.park()?;
/// assert!(parked.bytes() >= 1 << 20);
/// parked.resume()?;
/// # drop(weight);
/// # Ok::<(), toma_torch::Error>(())
/// ```
#[must_use = "dropped, parked storages may be fetched at once"]
#[derive(Debug)]
pub struct Parked {
    shared: Arc<ManagerState>,
    storages: Vec<ParkedStorage>,
    bytes: u64,
    stays: Stays,
}

impl Parked {
    fn new(shared: &Arc<ManagerState>) -> Result<Self, Error> {
        registry::check_process()?;
        operators::end_lent_pins();
        let _moving = Moving::begin_aside();
        let marked = shared.mark_all()?;
        let storages: Vec<_> = marked.iter().map(|one| one.known).collect();
        let bytes = marked.iter().filter(|one| !one.known.was_evicted).map(|one| one.bytes).sum();
        shared.evict_all(marked)?;
        shared.device.release_cached_memory();
        Ok(Self { storages, bytes, stays: shared.stays(), shared: Arc::clone(shared) })
    }

    /// Returns the bytes that parking has evicted from the device.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the memory that is still on the device.
    pub fn stays(&self) -> Stays {
        self.stays
    }

    /// Fetches the storages that were on the device. Those evicted before stay evicted, and may be used again.
    ///
    /// # Errors
    /// Out of memory if they do not fit all at once, even after other storages were evicted. Then everything stays
    /// parked, and the error contains it.
    pub fn resume(mut self) -> Result<(), Unresumed> {
        match self.shared.fetch_all_parked(&self.storages) {
            Ok(()) => {
                self.storages.clear();
                Ok(())
            }
            Err(error) => Err(Unresumed { parked: self, error }),
        }
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        if ffi::toma_offload_is_forked() || self.storages.is_empty() {
            return;
        }
        let _aside = Aside::begin();
        let marked = self.shared.mark_parked(&self.storages);
        self.shared.mark_evicted(marked);
    }
}

/// Error of storages that did not fit on their device, and are still parked.
///
/// ```
/// use toma_torch::offload::Parked;
///
/// /// Tries until another program has freed the device.
/// fn resume(mut parked: Parked) {
///     while let Err(unresumed) = parked.resume() {
///         eprintln!("{unresumed}");
///         std::thread::sleep(std::time::Duration::from_secs(1));
///         parked = unresumed.into_parked();
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Unresumed {
    parked: Parked,
    error: Error,
}

impl Unresumed {
    /// Returns the parked storages, to try again.
    pub fn into_parked(self) -> Parked {
        self.parked
    }
}

impl fmt::Display for Unresumed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes stay parked", self.parked.bytes)
    }
}

impl std::error::Error for Unresumed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// For bodies that return errors of this package. Drops the parked storages, so operators may fetch them.
impl From<Unresumed> for Error {
    fn from(unresumed: Unresumed) -> Self {
        unresumed.error
    }
}
