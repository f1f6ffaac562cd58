//! The managers of this process, one at a time for each device, and the books of each device, which outlive them.

use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock};

use toma_core::memory::MemorySource as _;

use super::shared::Shared;
use super::table::Books;
use crate::error::{Error, ErrorKind};
use crate::ffi::{self, DeviceId};
use crate::memory::Device;

type Managers = Arc<[Arc<Shared>]>;

static MANAGERS: LazyLock<RwLock<Managers>> = LazyLock::new(|| RwLock::new(Arc::new([])));

/// Those of all devices that have ever had a manager.
static BOOKS: Mutex<Vec<Arc<Books>>> = Mutex::new(Vec::new());

pub(crate) fn books(device: &Device) -> Arc<Books> {
    let mut books = BOOKS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_of = |one: &&Arc<Books>| one.device.device() == device.device();
    if let Some(known) = books.iter().find(is_of) {
        return Arc::clone(known);
    }
    books.push(Arc::new(Books::new(device)));
    Arc::clone(books.last().expect("it was pushed"))
}

pub(crate) fn all_books() -> Vec<Arc<Books>> {
    BOOKS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

pub(crate) fn all() -> Managers {
    Arc::clone(&MANAGERS.read().unwrap_or_else(PoisonError::into_inner))
}

pub(crate) fn of(device: DeviceId) -> Option<Arc<Shared>> {
    all().iter().find(|shared| shared.id == device).cloned()
}

/// Refuses a process that was forked from one with a manager. Threads that move storages are missing there, and may
/// have held locks.
pub(crate) fn check_process() -> Result<(), Error> {
    if !ffi::is_forked() {
        return Ok(());
    }
    let message = "offload: this process was forked from one that has a manager, whose threads are missing here: fork \
                   before the first manager is made, or start another program";
    Err(Error::new(ErrorKind::Unsupported, message.to_owned()))
}

/// Makes it the manager of its device.
pub(crate) fn add(shared: &Arc<Shared>) -> Result<(), Error> {
    let mut managers = MANAGERS.write().unwrap_or_else(PoisonError::into_inner);
    match managers.iter().find(|other| other.id == shared.id) {
        Some(other) if Arc::ptr_eq(other, shared) => Ok(()),
        Some(_) => {
            let message =
                format!("offload: {} has a manager already, and may have one", shared.device.name());
            Err(Error::new(ErrorKind::Unsupported, message))
        }
        None => {
            shared.takes_over();
            *managers = managers.iter().chain([shared]).cloned().collect();
            Ok(())
        }
    }
}

pub(crate) fn remove(shared: &Arc<Shared>) {
    let mut managers = MANAGERS.write().unwrap_or_else(PoisonError::into_inner);
    *managers = managers.iter().filter(|other| !Arc::ptr_eq(other, shared)).cloned().collect();
}
