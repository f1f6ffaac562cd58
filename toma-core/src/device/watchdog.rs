//! The one thread that watches the time for tasks that wait: whatever polls them need not have a clock.
//!
//! It starts when a task first waits, and sleeps while none does. A child of `fork` starts its own.

use std::collections::BTreeMap;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread;
use std::time::Instant;

use super::process::PerProcess;
use super::wait::wake;

static WATCHDOG: LazyLock<PerProcess<Watchdog>> = LazyLock::new(|| PerProcess::new(|_| Watchdog::default()));

#[derive(Debug, Default)]
struct Watchdog {
    alarms: Mutex<Alarms>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Alarms {
    runs: bool,
    keys: u64,
    due: BTreeMap<Due, Waker>,
}

/// When, and one of those at that moment.
type Due = (Instant, u64);

/// A task that is woken at some moment, unless this is dropped before.
#[must_use]
#[derive(Debug)]
pub(super) struct Alarm(Due);

impl Alarm {
    /// `None` when there is no thread to watch the time, and none can be started.
    pub(super) fn set(at: Instant, waker: &Waker) -> Option<Self> {
        let waker = waker.clone();
        let watchdog = WATCHDOG.get();
        let mut alarms = watchdog.alarms();
        alarms.runs = alarms.runs || watchdog.start();
        if !alarms.runs {
            return None;
        }
        alarms.keys += 1;
        let due = (at, alarms.keys);
        let is_next = alarms.due.first_key_value().is_none_or(|(next, _)| due < *next);
        alarms.due.insert(due, waker);
        if is_next {
            watchdog.changed.notify_one();
        }
        Some(Self(due))
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // In two steps: a waker is foreign code, and must not be dropped under the lock.
        let waker = WATCHDOG.get().alarms().due.remove(&self.0);
        drop(waker);
    }
}

impl Watchdog {
    fn start(&'static self) -> bool {
        thread::Builder::new().name("toma-watchdog".to_owned()).spawn(|| self.watch()).is_ok()
    }

    fn alarms(&self) -> MutexGuard<'_, Alarms> {
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self) {
        let mut alarms = self.alarms();
        loop {
            let now = Instant::now();
            match alarms.due.first_entry() {
                None => alarms = self.changed.wait(alarms).unwrap_or_else(PoisonError::into_inner),
                Some(first) if first.key().0 <= now => {
                    let waker = first.remove();
                    drop(alarms);
                    wake([waker]);
                    alarms = self.alarms();
                }
                Some(first) => {
                    let left = first.key().0 - now;
                    let waited = self.changed.wait_timeout(alarms, left);
                    alarms = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }
}
