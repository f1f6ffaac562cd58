//! State that a child of `fork` finds as new.
//!
//! The child has one thread. What the parent's other threads were in the middle of never ends there: locks
//! they held stay locked, turns they had run on, and the watchdog's thread is gone. Asking the system for
//! the process costs as much as a turn, so it is asked only where a path is cold in any case: where a
//! lock is held, or an attempt would have to wait.

use std::process;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

/// A value of this process, and in a child of `fork` another one.
#[derive(Debug)]
pub(super) struct PerProcess<T> {
    process: u32,
    make: fn(u32) -> T,
    value: T,
    child: OnceLock<Box<Self>>,
}

impl<T> PerProcess<T> {
    /// A value that is made of the number of the process.
    pub(super) fn new(make: fn(u32) -> T) -> Self {
        let process = process::id();
        Self { process, make, value: make(process), child: OnceLock::new() }
    }

    /// The value of this process. It asks the system.
    pub(super) fn get(&self) -> &T {
        let (mut latest, process) = (self, process::id());
        while latest.process != process {
            latest = latest.child.get_or_init(|| Box::new(Self::new(self.make)));
        }
        &latest.value
    }

    /// The value of this process, or of its parent where no [`get`](Self::get) has come first.
    #[inline]
    fn latest(&self) -> &T {
        let mut latest = self;
        while let Some(child) = latest.child.get() {
            latest = child;
        }
        &latest.value
    }
}

impl<T> PerProcess<Mutex<T>> {
    /// Locks the value of this process, or the parent's where it is not locked there.
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        match self.latest().try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => self.lock_own(),
        }
    }

    /// Locks the value of this process. It asks the system.
    #[cold]
    pub(super) fn lock_own(&self) -> MutexGuard<'_, T> {
        self.get().lock().unwrap_or_else(PoisonError::into_inner)
    }
}
