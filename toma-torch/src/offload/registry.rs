//! The managers of this process, one for each device.

use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use toma_core::memory::MemorySource as _;

use super::shared::Shared;
use crate::error::{Error, ErrorKind};
use crate::ffi::DeviceId;

type Managers = Arc<[Arc<Shared>]>;

static MANAGERS: LazyLock<RwLock<Managers>> = LazyLock::new(|| RwLock::new(Arc::new([])));

pub(crate) fn all() -> Managers {
    Arc::clone(&MANAGERS.read().unwrap_or_else(PoisonError::into_inner))
}

pub(crate) fn of(device: DeviceId) -> Option<Arc<Shared>> {
    all().iter().find(|shared| shared.id == device).cloned()
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
            *managers = managers.iter().chain([shared]).cloned().collect();
            Ok(())
        }
    }
}

pub(crate) fn remove(shared: &Arc<Shared>) {
    let mut managers = MANAGERS.write().unwrap_or_else(PoisonError::into_inner);
    *managers = managers.iter().filter(|other| !Arc::ptr_eq(other, shared)).cloned().collect();
}
