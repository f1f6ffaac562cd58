//! Devices by the name of their memory source.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, Weak};

use super::process::PerProcess;
use super::turn::{Device, Handle, Queue};
use crate::memory::MemorySource;

/// Number of queues that are kept for good. Programs have fewer devices, unless names change.
const STAY: usize = 64;

static QUEUES: LazyLock<PerProcess<Mutex<Queues>>> = LazyLock::new(|| PerProcess::new(|_| Mutex::default()));

/// The queues that are kept for good, and those of further names while a call, thread or reservation uses them.
#[derive(Default)]
struct Queues {
    stay: BTreeMap<Box<str>, &'static Queue>,
    counted: BTreeMap<Box<str>, Weak<Queue>>,
}

impl Queues {
    fn get(&self, name: &str) -> Option<Handle> {
        let counted = || self.counted.get(name).and_then(Weak::upgrade).map(Handle::Counted);
        self.stay.get(name).map(|queue| Handle::Stays(queue)).or_else(counted)
    }

    fn add(&mut self, name: &str) -> Handle {
        if self.stay.len() < STAY {
            let queue = Box::leak(Box::new(Queue::new(name)));
            self.stay.insert(name.into(), queue);
            return Handle::Stays(queue);
        }
        self.counted.retain(|_, queue| queue.strong_count() > 0);
        let queue = Arc::new(Queue::new(name));
        self.counted.insert(name.into(), Arc::downgrade(&queue));
        Handle::Counted(queue)
    }
}

thread_local! {
    /// The devices that this thread has used last, the latest first.
    static LATELY: RefCell<[Option<Device>; 4]> = const { RefCell::new([const { None }; 4]) };
}

impl Device {
    /// Returns the device of a memory source, whose name is read once.
    #[inline]
    pub(crate) fn of(source: &dyn MemorySource) -> Self {
        Self::named(source.name())
    }

    #[inline]
    pub(super) fn named(name: &str) -> Self {
        // The thread-local value is gone at the end of the thread.
        let lately = LATELY.try_with(|lately| {
            lately.borrow().iter().flatten().find(|device| device.name() == name).cloned()
        });
        lately.ok().flatten().unwrap_or_else(|| Self::look_up(name))
    }

    #[cold]
    fn look_up(name: &str) -> Self {
        let mut queues = QUEUES.lock();
        let queue = queues.get(name).unwrap_or_else(|| queues.add(name));
        drop(queues);
        let device = Self { queue };
        // The device that falls out of the list is dropped here, without the lock.
        let _ = LATELY.try_with(|lately| {
            let mut lately = lately.borrow_mut();
            lately.rotate_right(1);
            lately[0] = Some(device.clone());
        });
        device
    }
}

/// Number of names that are kept.
#[cfg(test)]
pub(super) fn known() -> usize {
    let queues = QUEUES.lock();
    queues.stay.len() + queues.counted.len()
}
