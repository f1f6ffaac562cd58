//! Everything leaves a device, for another program to have its memory, and comes back.

use std::fmt;
use std::sync::Arc;

use toma_core::memory::MemorySource as _;
use toma_trace::Size;

use super::manager::Manager;
use super::shared::Shared;
use super::{operators, registry};
use crate::error::{Error, ErrorKind};
use crate::ffi::{self, Aside, DeviceId};
use crate::memory::Device;

impl Manager {
    /// Takes everything off the device, variables, gradients, optimizer state and saved activations, and gives the
    /// memory back to the system.
    ///
    /// On a CPU the blocks stay in memory, as those of evicted storages do: see [`Manager`].
    ///
    /// Storages keep their tensors, sizes and device. Until they are resumed, to use one is an error that names it.
    /// What [`keep`](Self::keep) was told leaves, too. Where this fails, all is as before.
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
    /// Names what is in use or pinned; out of memory where the host has no room.
    pub fn park(&self) -> Result<Parked, Error> {
        Parked::new(self.shared())
    }
}

/// Takes everything that a device's manager knows off the device: see [`Manager::park`].
///
/// libtorch keeps no list of its storages. A program that is to be parked makes a [`Manager`] and enters it before its
/// first tensor; it needs no budget. This is for code that has no handle of it.
///
/// # Errors
/// As [`Manager::park`], and where the device has no manager that has been entered.
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

/// What is off its device until it is resumed.
///
/// Dropped without that, it is away as any offloaded storage: fetched when an operator uses it.
#[must_use = "dropped, what is parked may be fetched back at once"]
#[derive(Debug)]
pub struct Parked {
    shared: Arc<Shared>,
    storages: Vec<Known>,
    bytes: u64,
    stays: Stays,
}

/// A storage that is parked, as long as it lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) id: u64,
    /// Numbers of storages are used again when they are gone, these are not.
    pub(crate) serial: u64,
    /// It was outside before, and is afterwards.
    pub(crate) was_away: bool,
}

/// What a device holds while all that may leave is parked.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stays {
    /// Storages with fewer bytes than the manager moves, of those that it knows.
    pub small: u64,
    /// Their bytes.
    pub small_bytes: u64,
    /// What the allocator has in use besides: tensors that no operator of an entered thread has used, and workspaces.
    /// Memory that is not the allocator's, such as a context of CUDA, stays as well, and is not counted.
    pub other_bytes: u64,
}

impl fmt::Display for Stays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [small, other] = [self.small_bytes, self.other_bytes].map(Size::of);
        write!(f, "{} small storages of {small} stay, and {other} that the manager does not know", self.small)
    }
}

impl Parked {
    fn new(shared: &Arc<Shared>) -> Result<Self, Error> {
        registry::check_process()?;
        operators::take_back();
        let _aside = Aside::begin();
        let marked = shared.mark_all()?;
        let storages: Vec<_> = marked.iter().map(|one| one.known).collect();
        let bytes = marked.iter().filter(|one| !one.known.was_away).map(|one| one.bytes).sum();
        shared.leave_all(marked)?;
        shared.device.release_cached_memory();
        Ok(Self { storages, bytes, stays: shared.stays(), shared: Arc::clone(shared) })
    }

    /// Bytes that have left the device for it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What is on the device still.
    pub fn stays(&self) -> Stays {
        self.stays
    }

    /// Brings back what was on the device; what was away before stays away, and may be used again.
    ///
    /// # Errors
    /// Out of memory where it does not fit at once, also after other storages have left. All is parked as before
    /// then, and in the error.
    pub fn resume(mut self) -> Result<(), Unresumed> {
        match self.shared.return_all(&self.storages) {
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
        if ffi::is_forked() {
            return;
        }
        let _aside = Aside::begin();
        let marked = self.shared.mark_parked(&self.storages);
        self.shared.say_away(marked);
    }
}

/// What did not fit on its device, and is parked still.
#[derive(Debug)]
pub struct Unresumed {
    parked: Parked,
    error: Error,
}

impl Unresumed {
    /// To try again.
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

/// For bodies that return errors of this package. What is parked is dropped: it is away, and may be used again.
impl From<Unresumed> for Error {
    fn from(unresumed: Unresumed) -> Self {
        unresumed.error
    }
}
