//! The handle that a program has.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tch::{Tensor, nn::VarStore};
use toma_core::memory::MemorySource as _;
use toma_plan::residency::Eviction;

use super::governor::Governor;
use super::planned::Planned;
use super::seen::{AroundOperators, Event, Seen};
use super::shared::Shared;
use super::status::{Report, Status};
use super::table::Place;
use super::tensor_ref::TensorRef;
use super::{foreseen, operators, registry};
use crate::error::{Error, ErrorKind};
use crate::ffi;
use crate::memory::{Device, cpu, relieve};

/// Keeps what a device's tensors hold within a budget: storages leave while nothing uses them.
///
/// A handle: clones are of one manager. A device has one at a time, from its first use until the last handle is
/// dropped. The next one finds what it has evicted.
///
/// On a CPU the budget bounds what operators use, and not the memory of the process: the block of an evicted storage
/// stays in memory until the storage ends, because other threads may be reading it by its address. Only storages whose
/// bytes are in a [weights file](Self::read_safetensors) give their block back.
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
/// // Four MiB in three.
/// let parts: Vec<_> = (0..4).map(|part| Tensor::full([1 << 18], part, (Kind::Float, tch::Device::Cpu))).collect();
/// assert!(manager.status().away_bytes >= 1 << 20);
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
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if ffi::is_forked() {
            return;
        }
        // Before what would make room below it is gone.
        self.shared.end_limit();
        registry::remove(&self.shared);
        self.shared.forget_copies();
    }
}

impl Manager {
    /// A manager of a device, which is entered next.
    ///
    /// Operators of other threads are observed from the first manager of the process on. On an accelerator make it while
    /// no other thread is inside of an operator, whose memory could leave meanwhile; on a CPU memory stays.
    ///
    /// Without a [`budget`](Self::budget) that of an accelerator is what is allocated and free when it is entered first,
    /// less 5 % of what is free. On the CPU it is that of the [`cpu::Budget`] in force; where there is none, nothing
    /// leaves.
    pub fn new(device: &Device) -> Self {
        ffi::install_offloading(&operators::Operators);
        if device.device() == tch::Device::Cpu {
            cpu::count();
        }
        relieve(device.device());
        Self { handle: Arc::new(Handle { shared: Shared::new(device, registry::books(device)) }) }
    }

    /// The most bytes of the device that tensors hold, all of them together.
    ///
    /// On the CPU and on CUDA the allocator refuses what exceeds it, where nothing can leave: from here on until the manager is
    /// dropped, and nothing leaves before it is entered. A block of CUDA's may be up to 1 MiB larger than what is asked for,
    /// more where `PYTORCH_ALLOC_CONF` rounds sizes up, and exceed it by that. On other devices it holds between operators.
    #[must_use]
    pub fn budget(self, bytes: u64) -> Self {
        self.shared().set_budget(bytes);
        self
    }

    /// The most bytes of the host for what is away; half of what is free unless told.
    #[must_use]
    pub fn host(self, bytes: u64) -> Self {
        self.shared().host.set_limit(bytes);
        self
    }

    /// What decides which storages leave.
    #[must_use]
    pub fn eviction(self, eviction: impl Eviction + 'static) -> Self {
        self.shared().set_eviction(Box::new(eviction));
        self
    }

    /// Where rows of a table are taken while it is outside; [`Governor::Gathers`] unless told.
    #[must_use]
    pub fn governor(self, governor: Governor) -> Self {
        self.shared().gathers_outside.store(governor == Governor::Gathers, Ordering::Relaxed);
        self
    }

    /// Storages of fewer bytes stay; 64 KiB unless told.
    #[must_use]
    pub fn min_bytes(self, bytes: u64) -> Self {
        self.shared().min_bytes.store(bytes, Ordering::Relaxed);
        // What its handles evict is found within other managers, too.
        ffi::moves_from(bytes);
        self
    }

    /// Hears of every storage that moves, on the thread that moves it. Once, before the manager is entered.
    #[must_use]
    pub fn observer(self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.sees(|seen| seen.observer = Some(Box::new(observer)))
    }

    /// Is called before and after each operator. Once, before the manager is entered.
    #[must_use]
    pub fn around_operators(self, around: impl AroundOperators + 'static) -> Self {
        self.sees(|seen| seen.around = Some(Box::new(around)))
    }

    /// # Panics
    /// Where another handle to it lives: what it tells would change under way.
    fn sees(mut self, change: impl FnOnce(&mut Seen)) -> Self {
        let handle = Arc::get_mut(&mut self.handle).and_then(|handle| Arc::get_mut(&mut handle.shared));
        let seen = &mut handle.expect("a manager that is not shared yet").seen;
        let mut told = seen.take().unwrap_or_default();
        change(&mut told);
        let _was_empty = seen.set(told);
        self
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    /// From here until the guard is dropped, operators of this thread and of its backwards find their arguments on the
    /// device.
    ///
    /// Guards nest, and end in any order.
    ///
    /// # Errors
    /// For a budget of 0 bytes, a device that is not there, one that has another manager, or a process in
    /// which another copy of this package has registered with libtorch.
    pub fn enter(&self) -> Result<Entered, Error> {
        self.check()?;
        let is_active = !toma_core::private::is_disabled();
        if is_active {
            ffi::register_offloading()?;
        }
        registry::add(self.shared())?;
        self.shared().limit_by_default();
        if is_active {
            ffi::enter_offloading(self.shared().min_bytes.load(Ordering::Relaxed));
            registry::all().books.iter().for_each(|books| books.refuse(false));
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

    /// Another budget from now on; what exceeds it leaves at once.
    ///
    /// # Errors
    /// Out of memory where what cannot leave exceeds it, and for a device that is not there. The budget before holds on.
    pub fn set_budget(&self, bytes: u64) -> Result<(), Error> {
        registry::check_process()?;
        let shared = self.shared();
        Device::existing(shared.device.device())?;
        operators::take_back();
        shared.room_below(bytes);
        let allocated = shared.allocated_bytes();
        if allocated > bytes {
            let name = shared.device.name();
            let message = format!(
                "{name} out of memory: budget {bytes}: {allocated} bytes are allocated that cannot leave"
            );
            return Err(Error::new(ErrorKind::OutOfMemory, message));
        }
        shared.set_budget(bytes);
        shared.replan();
        Ok(())
    }

    /// Runs one step of what the program repeats.
    ///
    /// Not needed: a step is noticed when the sequence of operators repeats itself. It says at once where steps begin.
    pub fn step<T>(&self, step: impl FnOnce() -> T) -> T {
        self.shared().step_begins();
        step()
    }

    /// Runs a step [dry](crate::dry_run()), so that it is planned before the program runs it.
    ///
    /// The step that comes next then moves what the plan says, where it would otherwise move on demand until the step
    /// has been recorded. What is foreseen may be a part of the step, such as its forward and backward without the
    /// optimizer, and is followed wherever its first operator comes. A step that does otherwise goes on by demand.
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
    /// manager.foresee(step)?;
    /// assert!(manager.plan().plan().is_some());
    /// let product = step();
    /// # assert_eq!(product.size(), [512, 512]);
    /// # Ok::<(), toma_torch::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`dry_run`](crate::dry_run()), and on a thread that has not entered.
    ///
    /// # Panics
    /// As [`dry_run`](crate::dry_run()) does.
    pub fn foresee<T>(&self, step: impl FnOnce() -> T) -> Result<(), Error> {
        foreseen::foresee(self.shared(), step)
    }

    /// Watches a tensor's memory, by its handle.
    pub fn adopt(&self, tensor: &Tensor) -> TensorRef {
        TensorRef::new(self.shared(), tensor, None)
    }

    /// Watches the variables of a store, with their names.
    pub fn adopt_all(&self, variables: &VarStore) -> Vec<TensorRef> {
        let mut named: Vec<_> = variables.variables().into_iter().collect();
        named.sort_by(|(one, _), (other, _)| one.cmp(other));
        named.iter().map(|(name, tensor)| TensorRef::new(self.shared(), tensor, Some(name))).collect()
    }

    /// These tensors stay on the device, where they are.
    pub fn keep(&self, tensors: &[&Tensor]) {
        for tensor in tensors {
            let _kept = TensorRef::new(self.shared(), tensor, None).set_kept(true);
        }
    }

    /// Brings everything back.
    ///
    /// # Errors
    /// Names what does not fit. What fits is back.
    pub fn fetch_all(&self) -> Result<(), Error> {
        registry::check_process()?;
        let shared = self.shared();
        operators::take_back();
        while shared.outwards.has_waited() {}
        let away: Vec<_> = {
            let table = shared.table();
            let away = table.entries.iter().filter(|(_, entry)| entry.place == Place::Away);
            away.map(|(id, entry)| (entry.serial, *id, entry.words())).collect()
        };
        let mut lacking = Vec::new();
        for (_, id, words) in sorted(away) {
            if shared.fetch(id, true).is_err() {
                lacking.push(words);
            }
        }
        if lacking.is_empty() {
            return Ok(());
        }
        let message = format!(
            "{} out of memory: {} of what is away do not fit: {}",
            shared.device.name(),
            lacking.len(),
            lacking.join(", ")
        );
        Err(Error::new(ErrorKind::OutOfMemory, message))
    }

    /// How many storages are where now.
    pub fn status(&self) -> Status {
        Status::of(self.shared())
    }

    /// What is known of the step that the program repeats.
    pub fn plan(&self) -> Planned {
        Planned::of(self.shared())
    }

    /// What has moved so far.
    pub fn report(&self) -> Report {
        Report::of(self.shared())
    }
}

impl Manager {
    /// Once, when no thread is inside any more.
    fn warn_of_away(&self) {
        let shared = self.shared();
        let away = shared.places.away();
        if away > 0 && !shared.has_warned.swap(true, Ordering::Relaxed) {
            let (name, bytes) = (shared.device.name(), shared.places.away_bytes());
            eprintln!(
                "toma: {away} storages of {bytes} bytes are away from {name}: fetch_all brings them back"
            );
        }
    }
}

fn sorted<T: Ord>(mut all: Vec<T>) -> Vec<T> {
    all.sort_unstable();
    all
}

/// While it lives, operators of its thread find their arguments on the device.
///
/// What is away when it is dropped stays away. To use it then is an error that names it.
#[must_use = "operators find their arguments until this guard is dropped"]
#[derive(Debug)]
pub struct Entered {
    manager: Manager,
    /// Not with `TOMA_DISABLE=1`: then everything stays.
    is_active: bool,
    of_thread: PhantomData<*const ()>,
}

impl Entered {
    /// What was entered.
    pub fn manager(&self) -> &Manager {
        &self.manager
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if !self.is_active || ffi::is_forked() {
            return;
        }
        operators::take_back();
        if ffi::leave_offloading() {
            registry::all().books.iter().for_each(|books| books.refuse(true));
            self.manager.shared().forget_copies();
            self.manager.warn_of_away();
        }
    }
}
