//! The public handle of a manager.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tch::{Tensor, nn::VarStore};
use toma_core::memory::MemorySource as _;
use toma_plan::residency::Eviction;

use super::governor::Governor;
use super::status::{Report, Status};
use super::tensor_ref::TensorRef;
use crate::error::{Error, ErrorKind};
use crate::ffi;
use crate::memory::{Device, cpu, relieve};
use crate::offload::moves::callbacks::{AroundOperators, Callbacks, Event};
use crate::offload::moves::dry_step;
use crate::offload::moves::operators;
use crate::offload::moves::planned::Planned;
use crate::offload::moves::registry;
use crate::offload::moves::state::ManagerState;
use crate::offload::moves::table::Location;

/// Keeps the tensors of a device within a memory budget: storages are evicted while no operator uses them.
///
/// A `Manager` is a handle, and its clones refer to one manager. A device has one manager at a time, from its first use
/// until the last handle is dropped. The next manager finds the storages that it has evicted.
///
/// On a CPU the budget bounds the memory that operators use, not the memory of the process: the block of an evicted
/// storage stays in memory until the storage ends, because other threads may be reading it by its address. Only
/// storages whose bytes are in a [weights file](Self::read_safetensors) free their block.
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_torch::offload::Manager;
/// use toma_torch::{Device, cpu};
///
/// cpu::count();
/// let device = Device::new(tch::Device::Cpu);
/// let manager = Manager::new(&device).budget(cpu::allocated_bytes() + (3 << 20));
/// let _entered = manager.enter()?;
/// // 4 MiB of tensors in a budget of 3 MiB.
/// let parts: Vec<_> = (0..4).map(|part| Tensor::full([1 << 18], part, (Kind::Float, tch::Device::Cpu))).collect();
/// assert!(manager.status().evicted_bytes >= 1 << 20);
/// let sum = parts.iter().map(|part| part.sum(Kind::Float).double_value(&[])).sum::<f64>();
/// assert_eq!(sum, f64::from((1 + 2 + 3) << 18));
/// # Ok::<(), toma_torch::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Manager {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    shared: Arc<ManagerState>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if ffi::toma_offload_is_forked() {
            return;
        }
        // The limit ends first, while there is still a manager to make room below it.
        self.shared.end_limit();
        registry::remove(&self.shared);
        self.shared.forget_copies();
    }
}

impl Manager {
    /// Makes a manager of a device, to be [entered](Self::enter) next.
    ///
    /// From the first manager of the process on, operators of other threads are observed. On an accelerator, make it
    /// while no other thread is inside an operator, whose memory could be evicted meanwhile. On a CPU memory stays.
    ///
    /// Without a [`budget`](Self::budget), an accelerator's is the allocated plus 95 % of the free bytes, read when the
    /// manager is first entered. On the CPU it is the current [`cpu::Budget`]; without one, nothing is evicted.
    pub fn new(device: &Device) -> Self {
        ffi::install_offloading(&operators::Operators);
        if device.device() == tch::Device::Cpu {
            cpu::count();
        }
        relieve(device.device());
        Self { handle: Arc::new(Handle { shared: ManagerState::new(device, registry::books(device)) }) }
    }

    /// Sets the most bytes that all tensors of the device hold together.
    ///
    /// On the CPU and on CUDA the allocator refuses allocations beyond the budget if nothing can be evicted, from this
    /// call until the manager is dropped. Nothing is evicted before the manager is entered. A block of CUDA may be up
    /// to 1 MiB larger than requested, more where `PYTORCH_ALLOC_CONF` rounds sizes up, and may exceed the budget by
    /// that much. On other devices the budget is enforced between operators.
    #[must_use]
    pub fn budget(self, bytes: u64) -> Self {
        self.shared().set_budget(bytes);
        self
    }

    /// Sets the most bytes of host memory for evicted storages. Default: half of the free host memory.
    #[must_use]
    pub fn host(self, bytes: u64) -> Self {
        self.shared().host.set_limit(bytes);
        self
    }

    /// Sets the policy that decides which storages are evicted.
    #[must_use]
    pub fn eviction(self, eviction: impl Eviction + 'static) -> Self {
        self.shared().set_eviction(Box::new(eviction));
        self
    }

    /// Sets where rows of an evicted table are gathered. Default: [`Governor::Gathers`].
    #[must_use]
    pub fn governor(self, governor: Governor) -> Self {
        self.shared().gathers_outside.store(governor == Governor::Gathers, Ordering::Relaxed);
        self
    }

    /// Keeps storages of fewer bytes on the device. Default: 64 KiB.
    #[must_use]
    pub fn min_bytes(self, bytes: u64) -> Self {
        self.shared().min_bytes.store(bytes, Ordering::Relaxed);
        // Operators of other managers must find the storages that handles of this one evict.
        ffi::toma_offload_moves(bytes);
        self
    }

    /// Sets a callback for every move of a storage, on the thread that moves it. Set it once, before entering.
    ///
    /// It is called when the thread has ended its moves: storages that had to leave for a fetch are reported, before
    /// the fetch, when it has ended.
    #[must_use]
    pub fn observer(self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.with_callbacks(|callbacks| callbacks.observer = Some(Arc::new(observer)))
    }

    /// Sets callbacks before and after each operator. Set them once, before entering.
    #[must_use]
    pub fn around_operators(self, around: impl AroundOperators + 'static) -> Self {
        self.with_callbacks(|callbacks| callbacks.around = Some(Box::new(around)))
    }

    /// Changes the callbacks of a manager that has no other handle yet.
    ///
    /// # Panics
    /// If another handle of the manager exists, because the callbacks would change while they are in use.
    fn with_callbacks(mut self, change: impl FnOnce(&mut Callbacks)) -> Self {
        let handle = Arc::get_mut(&mut self.handle).and_then(|handle| Arc::get_mut(&mut handle.shared));
        let callbacks = &mut handle.expect("a manager that is not shared yet").callbacks;
        let mut changed = callbacks.take().unwrap_or_default();
        change(&mut changed);
        let _was_empty = callbacks.set(changed);
        self
    }

    pub(crate) fn shared(&self) -> &Arc<ManagerState> {
        &self.handle.shared
    }

    /// Makes operators of this thread and its backward passes find their arguments on the device while the guard lives.
    ///
    /// Guards nest, and may be dropped in any order.
    ///
    /// # Errors
    /// If the budget is 0 bytes, the device does not exist or has another manager, another copy of this package in the
    /// process has registered with libtorch, CUDA's allocator caches nothing (`PYTORCH_NO_CUDA_MEMORY_CACHING`), or the
    /// process was forked after its first manager.
    pub fn enter(&self) -> Result<Entered, Error> {
        self.check()?;
        let is_active = !toma_core::private::is_disabled();
        if is_active {
            ffi::register_offloading()?;
        }
        registry::add(self.shared())?;
        self.shared().limit_by_default();
        if is_active {
            ffi::toma_offload_enter(self.shared().min_bytes.load(Ordering::Relaxed));
            registry::all().books.iter().for_each(|books| books.update_access());
        }
        Ok(Entered { manager: self.clone(), is_active, of_thread: PhantomData })
    }

    fn check(&self) -> Result<(), Error> {
        let shared = self.shared();
        registry::check_process()?;
        Device::existing(shared.device.device())?;
        let uncounted = "PYTORCH_NO_CUDA_MEMORY_CACHING";
        if shared.device.device().is_cuda() && std::env::var_os(uncounted).is_some() {
            let name = shared.device.name();
            let message =
                format!("offload: {uncounted} is set, so libtorch counts no bytes of {name}: unset it");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if shared.limit_bytes() == 0 {
            let message = format!("offload: budget 0 of {}: must be at least 1 byte", shared.device.name());
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(())
    }

    /// Changes the budget; storages beyond it are evicted at once.
    ///
    /// # Errors
    /// Out of memory if more bytes are allocated that cannot be evicted, and if the device does not exist. Then the
    /// previous budget stays current.
    pub fn set_budget(&self, bytes: u64) -> Result<(), Error> {
        registry::check_process()?;
        let shared = self.shared();
        Device::existing(shared.device.device())?;
        operators::end_lent_pins();
        shared.evict_down_to(bytes);
        let allocated = shared.allocated_bytes();
        if allocated > bytes {
            let name = shared.device.name();
            let message = format!(
                "{name} out of memory: {allocated} bytes cannot be evicted, budget {bytes}: drop pins and \
                 tensors, or raise the budget"
            );
            return Err(Error::new(ErrorKind::OutOfMemory, message));
        }
        shared.set_budget(bytes);
        shared.replan();
        Ok(())
    }

    /// Runs one step that the program repeats.
    ///
    /// Optional: a step is detected when its sequence of operators repeats. This call marks at once where steps begin.
    pub fn step<T>(&self, step: impl FnOnce() -> T) -> T {
        self.shared().step_begins();
        step()
    }

    /// Runs a step [dry](crate::dry_run()), so that it is planned before the program runs it.
    ///
    /// The next step then follows the plan; otherwise storages are fetched on demand until the step has been recorded.
    /// The predicted step may be a part of the real one, such as its forward and backward without the optimizer, and is
    /// followed wherever its first operator comes. A step that deviates from the prediction continues on demand.
    ///
    /// ```
    /// use tch::{Kind, Tensor};
    /// use toma_torch::offload::Manager;
    /// use toma_torch::{Device, cpu};
    ///
    /// cpu::count();
    /// let weights = [0, 1, 2, 3].map(|_| Tensor::ones([512, 512], (Kind::Float, tch::Device::Cpu)));
    /// let manager = Manager::new(&Device::new(tch::Device::Cpu)).budget(cpu::allocated_bytes() + (1 << 20));
    /// let _entered = manager.enter()?;
    /// let step = || weights.iter().fold(Tensor::ones([512, 512], (Kind::Float, tch::Device::Cpu)), |x, weight| x.mm(weight));
    /// manager.predict(step)?;
    /// assert!(manager.plan().plan().is_some());
    /// let product = step();
    /// # assert_eq!(product.size(), [512, 512]);
    /// # Ok::<(), toma_torch::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`dry_run`](crate::dry_run()), and an error on a thread that has not entered.
    ///
    /// # Panics
    /// Where [`dry_run`](crate::dry_run()) panics.
    pub fn predict<T>(&self, step: impl FnOnce() -> T) -> Result<(), Error> {
        dry_step::predict(self.shared(), step)
    }

    /// Watches the memory of a tensor, and returns a handle to it.
    pub fn adopt(&self, tensor: &Tensor) -> TensorRef {
        TensorRef::new(self.shared(), tensor, None)
    }

    /// Watches the variables of a store under their names.
    pub fn adopt_all(&self, variables: &VarStore) -> Vec<TensorRef> {
        let mut named: Vec<_> = variables.variables().into_iter().collect();
        named.sort_by(|(one, _), (other, _)| one.cmp(other));
        named.iter().map(|(name, tensor)| TensorRef::new(self.shared(), tensor, Some(name))).collect()
    }

    /// Excludes these tensors from eviction, so that they stay on the device.
    pub fn keep(&self, tensors: &[&Tensor]) {
        for tensor in tensors {
            let _kept = TensorRef::new(self.shared(), tensor, None).set_kept(true);
        }
    }

    /// Fetches everything that is evicted.
    ///
    /// # Errors
    /// If a weights file has changed, or if storages do not fit, which the message names. All others have been fetched.
    pub fn fetch_all(&self) -> Result<(), Error> {
        registry::check_process()?;
        let shared = self.shared();
        operators::end_lent_pins();
        while shared.outwards.wait_for_a_move() {}
        let evicted: Vec<_> = {
            let table = shared.still();
            let evicted = table.entries.iter().filter(|(_, entry)| entry.location == Location::Evicted);
            evicted.map(|(id, entry)| (entry.serial, *id, entry.words())).collect()
        };
        let (mut lacking, mut failed) = (Vec::new(), Ok(()));
        for (_, id, words) in sorted(evicted) {
            match shared.fetch(id, true) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::OutOfMemory => lacking.push(words),
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        failed?;
        if lacking.is_empty() {
            return Ok(());
        }
        let message = format!(
            "{} out of memory: {} of the evicted bytes do not fit: {}",
            shared.device.name(),
            lacking.len(),
            lacking.join(", ")
        );
        Err(Error::new(ErrorKind::OutOfMemory, message))
    }

    /// Counts storages and bytes by their current location.
    pub fn status(&self) -> Status {
        Status::of(self.shared())
    }

    /// Returns the step that the program repeats, as far as it is known, and its plan.
    pub fn plan(&self) -> Planned {
        Planned::of(self.shared())
    }

    /// Returns the counts of all moves so far.
    pub fn report(&self) -> Report {
        Report::of(self.shared())
    }

    /// Warns once of storages that are still evicted when the last thread has left.
    fn warn_of_evicted(&self) {
        let shared = self.shared();
        let evicted = shared.evicted.count();
        if evicted > 0 && !shared.has_warned.swap(true, Ordering::Relaxed) {
            let (name, bytes) = (shared.device.name(), shared.evicted.bytes());
            // Not `eprintln`, which panics where nobody reads, here in a drop.
            toma_core::predict::print(&format!(
                "toma: {evicted} storages of {bytes} bytes are evicted from {name}: fetch_all fetches them"
            ));
        }
    }
}

fn sorted<T: Ord>(mut all: Vec<T>) -> Vec<T> {
    all.sort_unstable();
    all
}

/// Guard within which operators of its thread find their arguments on the device.
///
/// Storages that are evicted when it is dropped stay evicted. Using one then is an error that names it.
///
/// ```
/// use toma_torch::offload::Manager;
/// use toma_torch::{Device, cpu};
///
/// let manager = Manager::new(&Device::new(tch::Device::Cpu)).budget(cpu::allocated_bytes() + (8 << 20));
/// let entered = manager.enter()?;
/// // ... operators fetch their arguments ...
/// println!("{}", entered.manager().status());
/// # Ok::<(), toma_torch::Error>(())
/// ```
#[must_use = "operators find their arguments until this guard is dropped"]
#[derive(Debug)]
pub struct Entered {
    manager: Manager,
    /// False with `TOMA_DISABLE=1`: then nothing moves.
    is_active: bool,
    of_thread: PhantomData<*const ()>,
}

impl Entered {
    /// Returns the manager that was entered.
    pub fn manager(&self) -> &Manager {
        &self.manager
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if !self.is_active || ffi::toma_offload_is_forked() {
            return;
        }
        operators::end_lent_pins();
        if ffi::toma_offload_leave() {
            registry::all().books.iter().for_each(|books| books.update_access());
            self.manager.shared().forget_copies();
            self.manager.warn_of_evicted();
        }
    }
}
