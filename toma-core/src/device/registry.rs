//! Devices by the name of their memory source.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, Weak};

use super::process::PerProcess;
use super::turn::{Device, Queue};
use crate::memory::MemorySource;

/// The queues that are in use: of a name that no call, thread or reservation has any more, none is kept.
static QUEUES: LazyLock<PerProcess<Mutex<Queues>>> = LazyLock::new(|| PerProcess::new(|_| Mutex::default()));

type Queues = BTreeMap<Box<str>, Weak<Queue>>;

thread_local! {
    /// The devices this thread has used last, the latest first.
    static LATELY: RefCell<[Option<Device>; 4]> = const { RefCell::new([const { None }; 4]) };
}

impl Device {
    /// The device of a memory source, whose name is asked once.
    #[inline]
    pub(crate) fn of(source: &dyn MemorySource) -> Self {
        Self::named(source.name())
    }

    #[inline]
    pub(super) fn named(name: &str) -> Self {
        // Gone at the end of the thread.
        let lately = LATELY.try_with(|lately| {
            lately.borrow().iter().flatten().find(|device| device.name() == name).cloned()
        });
        lately.ok().flatten().unwrap_or_else(|| Self::look_up(name))
    }

    #[cold]
    fn look_up(name: &str) -> Self {
        let device = Self::shared_by_threads(name);
        // What makes room for it is dropped here, without the lock.
        let _ = LATELY.try_with(|lately| {
            let mut lately = lately.borrow_mut();
            lately.rotate_right(1);
            lately[0] = Some(device.clone());
        });
        device
    }

    fn shared_by_threads(name: &str) -> Self {
        let mut queues = QUEUES.lock();
        if let Some(queue) = queues.get(name).and_then(Weak::upgrade) {
            return Self { queue };
        }
        queues.retain(|_, queue| queue.strong_count() > 0);
        let device = Self::new(name);
        queues.insert(name.into(), Arc::downgrade(&device.queue));
        device
    }
}

/// The names that are kept.
#[cfg(test)]
pub(super) fn known() -> usize {
    QUEUES.lock().len()
}
