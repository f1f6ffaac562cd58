//! Waiting threads and tasks, and the events that wake them: other calls, a cancellation, or the time.
//!
//! The queues know waits by their keys. Only this module holds wakers. They are foreign code, so they are cloned,
//! woken and dropped without a lock. One thread watches the time for tasks, because an executor need not have a
//! clock. It starts when a task first waits, and sleeps while no task waits.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use super::process::PerProcess;
use crate::contained::contained;

static SLEEPERS: LazyLock<PerProcess<Sleepers>> = LazyLock::new(|| PerProcess::new(|_| Sleepers::default()));

/// The flag of a [`Cancel`](super::Cancel), which its clones share.
pub(super) type Flag = Arc<AtomicBool>;

/// Identifies a wait or a measurement. A child of `fork` continues with other keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SleeperId(pub(super) u64);

impl SleeperId {
    pub(super) fn new() -> Self {
        static KEYS: AtomicU64 = AtomicU64::new(0);
        Self(KEYS.fetch_add(1, Relaxed))
    }
}

#[derive(Default)]
struct Sleepers {
    table: Mutex<SleeperTable>,
    changed: Condvar,
}

#[derive(Default)]
struct SleeperTable {
    sleepers: BTreeMap<SleeperId, Sleeper>,
    /// True while the thread that watches the time runs.
    watched: bool,
}

/// A wait that is not over.
struct Sleeper {
    waker: Waker,
    /// The flag that cancels the wait.
    cancel: Option<Flag>,
    alarm: Option<Instant>,
}

/// Registers `waker` to be woken by [`wake`] and by `cancel`, until it is woken or [`wakes_up`] removes it.
pub(super) fn sleeps(key: SleeperId, waker: &Waker, cancel: Option<&Flag>) {
    let sleeper = Sleeper { waker: waker.clone(), cancel: cancel.cloned(), alarm: None };
    let before = SLEEPERS.get().table().sleepers.insert(key, sleeper);
    drop(before);
}

/// Also wakes the wait at the time `at`. False if no thread watches the time and none can be started.
pub(super) fn set_alarm(key: SleeperId, at: Instant) -> bool {
    let sleepers = SLEEPERS.get();
    let mut table = sleepers.table();
    table.watched = table.watched || sleepers.start();
    let watched = table.watched;
    if let Some(sleeper) = table.sleepers.get_mut(&key) {
        sleeper.alarm = Some(at);
        sleepers.changed.notify_one();
    }
    watched
}

/// Removes a wait that is over.
pub(super) fn wakes_up(key: SleeperId) {
    // Two statements, so that the table is unlocked before the waker is dropped.
    let sleeper = SLEEPERS.get().table().sleepers.remove(&key);
    drop(sleeper);
}

/// Wakes each wait once. A waker that panics is skipped, because other waits come after it.
pub(super) fn wake(keys: impl IntoIterator<Item = SleeperId>) {
    for key in keys {
        let sleeper = SLEEPERS.get().table().sleepers.remove(&key);
        contained(|| sleeper.map(|sleeper| sleeper.waker.wake()));
    }
}

/// Wakes all waits that `cancel` ends.
pub(super) fn wake_cancelled(cancel: &Flag) {
    let is_cancelled = |sleeper: &Sleeper| sleeper.cancel.as_ref().is_some_and(|by| Arc::ptr_eq(by, cancel));
    let table = SLEEPERS.get().table();
    let cancelled = table.sleepers.iter().filter(|(_, sleeper)| is_cancelled(sleeper));
    let keys: Vec<_> = cancelled.map(|(&key, _)| key).collect();
    drop(table);
    wake(keys);
}

impl Sleepers {
    fn table(&self) -> MutexGuard<'_, SleeperTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&'static self) -> bool {
        thread::Builder::new().name("toma-watchdog".to_owned()).spawn(|| self.watch()).is_ok()
    }

    fn watch(&self) {
        let mut table = self.table();
        loop {
            let due = table.sleepers.iter().filter_map(|(&key, sleeper)| Some((sleeper.alarm?, key))).min();
            let left = due.map(|(at, _)| at.saturating_duration_since(Instant::now()));
            table = match (due, left) {
                (Some((_, key)), Some(Duration::ZERO)) => {
                    drop(table);
                    wake([key]);
                    self.table()
                }
                (_, Some(left)) => {
                    self.changed.wait_timeout(table, left).unwrap_or_else(PoisonError::into_inner).0
                }
                _ => self.changed.wait(table).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}
