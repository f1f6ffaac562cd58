//! The managers of this process, one at a time for each device, and the books of each device, which outlive managers.

use std::sync::{Arc, LazyLock, PoisonError, RwLock, RwLockWriteGuard};

use toma_core::memory::MemorySource as _;

use super::state::ManagerState;
use super::table::Books;
use crate::error::{Error, ErrorKind};
use crate::ffi::{self, DeviceId};
use crate::memory::Device;

static REGISTERED: LazyLock<RwLock<Arc<Registered>>> = LazyLock::new(RwLock::default);

/// Managers that threads have entered, and the books of all devices that have ever had a manager.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registered {
    pub(crate) managers: Vec<Arc<ManagerState>>,
    pub(crate) books: Vec<Arc<Books>>,
    /// Books of devices whose managers no thread has entered. Handles can move storages of these devices, too.
    pub(crate) unmanaged: Vec<Arc<Books>>,
}

impl Registered {
    fn changed(mut self, change: impl FnOnce(&mut Self)) -> Arc<Self> {
        change(&mut self);
        let is_managed = |books: &&Arc<Books>| self.managers.iter().any(|shared| shared.id == books.id);
        self.unmanaged = self.books.iter().filter(|books| !is_managed(books)).cloned().collect();
        Arc::new(self)
    }
}

fn registered() -> RwLockWriteGuard<'static, Arc<Registered>> {
    REGISTERED.write().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn all() -> Arc<Registered> {
    Arc::clone(&REGISTERED.read().unwrap_or_else(PoisonError::into_inner))
}

/// Returns the books of a device, made for its first manager.
pub(crate) fn books(device: &Device) -> Arc<Books> {
    let mut registered = registered();
    let is_of = |one: &&Arc<Books>| one.device.device() == device.device();
    if let Some(known) = registered.books.iter().find(is_of) {
        return Arc::clone(known);
    }
    let made = Arc::new(Books::new(device));
    *registered = Registered::clone(&registered).changed(|all| all.books.push(Arc::clone(&made)));
    made
}

pub(crate) fn of(device: DeviceId) -> Option<Arc<ManagerState>> {
    all().managers.iter().find(|shared| shared.id == device).cloned()
}

/// Returns an error in a process that was forked from one with a manager: threads that move storages are missing there,
/// and may have held locks.
pub(crate) fn check_process() -> Result<(), Error> {
    if !ffi::toma_offload_is_forked() {
        return Ok(());
    }
    let message = "offload: this process was forked from one that has a manager, whose threads are missing here: fork \
                   before the first manager is made, or start another program";
    Err(Error::new(ErrorKind::Unsupported, message.to_owned()))
}

/// Registers the manager of a device.
pub(crate) fn add(shared: &Arc<ManagerState>) -> Result<(), Error> {
    let mut registered = registered();
    match registered.managers.iter().find(|other| other.id == shared.id) {
        Some(other) if Arc::ptr_eq(other, shared) => Ok(()),
        Some(_) => {
            let name = shared.device.name();
            let message = format!("offload: {name} has a manager already: drop that one first");
            Err(Error::new(ErrorKind::Unsupported, message))
        }
        None => {
            shared.takes_over();
            *registered = Registered::clone(&registered).changed(|all| all.managers.push(Arc::clone(shared)));
            Ok(())
        }
    }
}

pub(crate) fn remove(shared: &Arc<ManagerState>) {
    let mut registered = registered();
    let removed = |all: &mut Registered| all.managers.retain(|other| !Arc::ptr_eq(other, shared));
    *registered = Registered::clone(&registered).changed(removed);
}
