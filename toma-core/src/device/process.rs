//! State that starts anew in a child of `fork`.
//!
//! The child has one thread. Operations of the parent's other threads never end there: locks that they held stay
//! locked, their turns stay open, and the watchdog's thread is gone. Asking the system for the process id costs as
//! much as a turn, so it is asked only on paths that are cold anyway: where a lock is held, or an attempt would
//! have to wait.

use std::process;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

/// A value of this process; a child of `fork` gets another one.
#[derive(Debug)]
pub(super) struct PerProcess<T> {
    process: u32,
    make: fn(u32) -> T,
    value: T,
    child: OnceLock<Box<Self>>,
}

impl<T> PerProcess<T> {
    /// Makes a value from the process id.
    pub(super) fn new(make: fn(u32) -> T) -> Self {
        let process = process::id();
        Self { process, make, value: make(process), child: OnceLock::new() }
    }

    /// Returns the value of this process. Asks the system for the process id.
    pub(super) fn get(&self) -> &T {
        let (mut latest, process) = (self, process::id());
        while latest.process != process {
            latest = latest.child.get_or_init(|| Box::new(Self::new(self.make)));
        }
        &latest.value
    }

    /// Returns the value of this process, or of its parent if [`get`](Self::get) has not been called here yet.
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
    /// Locks the value that [`latest`](Self::latest) returns, or this process's own if that one is locked.
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        match self.latest().try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => self.lock_own(),
        }
    }

    /// Locks the value of this process. Asks the system for the process id.
    #[cold]
    pub(super) fn lock_own(&self) -> MutexGuard<'_, T> {
        self.get().lock().unwrap_or_else(PoisonError::into_inner)
    }
}
