//! Shared by all threads: devices, size caches, a runtime, and disturbances.

use std::collections::HashSet;
use std::fmt;
use std::io::{Write as _, stderr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use fastrand::Rng;
use tokio::runtime::{Builder, Runtime};
use tokio::task;
#[cfg(feature = "persistent")]
use toma::PersistentCache;
use toma::cache::SizeCache;
use toma::classify::Class;
use toma::device::Cancel;
use toma::device::{Hooked, Ladder, on_release};
use toma::memory::MemorySource as _;
use toma::observe::{Answer, Event, EventKind, Reason};
use toma::testing::{FakeDevice, inject};
use toma::{GlobalCache, NoCache, StacktraceMemoryCache};

use crate::device::Device;
use crate::plan;
use crate::watchdog::Slot;

/// State shared by all threads.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) devices: [Device; 2],
    pub(crate) counts: Counts,
    pub(crate) slots: Vec<Slot>,
    /// Cancels the current call of each thread.
    pub(crate) cancels: Vec<Mutex<Cancel>>,
    pub(crate) runtime: Runtime,
    /// Number of attempts to make.
    goal: u64,
    /// A thread has found a mistake, so the others may stop.
    pub(crate) failed: AtomicBool,
    /// Callers for which a loop in a hook gave way to the attempt that asked the hook.
    pub(crate) gave_way_in_hooks: Arc<Mutex<HashSet<Caller>>>,
    caches: Caches,
}

/// The task or thread that makes calls.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    Task(task::Id),
    Thread(ThreadId),
}

impl Caller {
    pub(crate) fn here() -> Self {
        task::try_id().map_or_else(|| Self::Thread(thread::current().id()), Self::Task)
    }
}

#[derive(Debug)]
struct Caches {
    global: GlobalCache,
    stacktrace: StacktraceMemoryCache,
    #[cfg(feature = "persistent")]
    persistent: PersistentCache,
    #[cfg(feature = "persistent")]
    folder: tempfile::TempDir,
}

/// Counts of events.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) attempts: AtomicU64,
    pub(crate) done: AtomicU64,
    pub(crate) left: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) panics: AtomicU64,
    /// Failures of bodies, and injected failures, by class.
    pub(crate) failures: [AtomicU64; CLASSES.len()],
    pub(crate) injected: [AtomicU64; CLASSES.len()],
    pub(crate) tasks: AtomicU64,
    pub(crate) waits: AtomicU64,
    pub(crate) fallbacks: AtomicU64,
}

/// All classes of failures.
pub(crate) const CLASSES: [Class; 4] = [Class::OutOfMemory, Class::Transient, Class::Poisoned, Class::Other];

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(crate) fn new(seed: u64, goal: u64, threads: usize) -> Arc<Self> {
        let device = |fake| Device::new(fake);
        Arc::new(Self {
            seed,
            devices: [
                device(FakeDevice::new(plan::MOST_BYTES)),
                device(FakeDevice::new(plan::MOST_BYTES).with_cached_memory()),
            ],
            counts: Counts::default(),
            slots: (0..threads).map(|_| Slot::new()).collect(),
            cancels: (0..threads).map(|_| Mutex::new(Cancel::new())).collect(),
            runtime: Builder::new_multi_thread().worker_threads(2).build().unwrap(),
            goal,
            failed: AtomicBool::new(false),
            gave_way_in_hooks: Arc::default(),
            caches: Caches::new(),
        })
    }

    pub(crate) fn is_over(&self) -> bool {
        self.failed.load(Relaxed) || self.counts.attempts.load(Relaxed) >= self.goal
    }

    pub(crate) fn cache(&self, number: usize) -> &dyn SizeCache {
        match number {
            // Rare, because the cache writes its file each time that it learns of another total.
            #[cfg(feature = "persistent")]
            0 => &self.caches.persistent,
            1..6 => &NoCache,
            6..11 => &self.caches.stacktrace,
            _ => &self.caches.global,
        }
    }

    /// Records a mistake that was found where a panic would be swallowed.
    pub(crate) fn complain(&self, text: &str) {
        let _ = writeln!(stderr(), "stress: {text}");
        self.failed.store(true, Relaxed);
    }

    /// Changes the budgets every few milliseconds, and sometimes clears the caches.
    pub(crate) fn disturb(&self, mut random: Rng) {
        let mut hooks = Vec::new();
        while !self.is_over() {
            thread::sleep(Duration::from_micros(random.u64(500..4000)));
            let device = &self.devices[random.usize(..2)];
            // Only a few different totals, because the cache in a file keeps an entry for each.
            let parts = if random.u8(..4) == 0 { 16 } else { random.u64(..8) };
            let bytes = plan::MOST_BYTES / 16 * parts;
            device.set_budget(bytes);
            match random.u8(..50) {
                0 => self.caches.global.clear(),
                1 => self.caches.stacktrace.clear(),
                2 => device.fake.release_cached_memory(),
                3 => device.fake.reset_peak(),
                4..7 => hooks.push(self.hook()),
                7..10 => hooks.clear(),
                10..20 => lock(&self.cancels[random.usize(..self.cancels.len())]).cancel(),
                _ => {}
            }
        }
    }

    /// Registers a release hook that runs a loop of its own, as hooks may.
    fn hook(&self) -> Hooked {
        let device = self.devices[0].fake.clone();
        let (turn, gave_way) = (AtomicU64::new(0), Arc::clone(&self.gave_way_in_hooks));
        on_release(move |pressure| {
            assert!(pressure.size > 0);
            // Injected failures are meant for the call that asks the hook.
            let _nothing = inject::script([]);
            // The hook may run on a thread of the runtime, which must not be blocked for long.
            let ladder = Ladder::default().wait(Duration::from_millis(2));
            let observer = |event: &Event<'_>| {
                if let EventKind::Answered { answer: Answer::GiveUp(Reason::GaveWay), .. } = event.kind {
                    lock(&gave_way).insert(Caller::here());
                }
            };
            let form = toma::execute::with::<NoCache>().device(&device).ladder(ladder).observer(&observer);
            let done = form.map(0..3, 2, |start, end| device.alloc((end - start) as u64).map(drop));
            done.is_ok() && turn.fetch_add(1, Relaxed).is_multiple_of(2)
        })
    }

    /// Asserts that nothing is allocated any more and that the learned sizes are plausible.
    pub(crate) fn check_what_is_left(&self) {
        self.devices.iter().for_each(Device::check_empty);
        let entries = self.caches.global.entries().into_iter().chain(self.caches.stacktrace.entries());
        for entry in entries {
            let settled = entry.remembered.settled;
            assert!((1..=plan::MOST_COST).contains(&settled), "{entry:?}");
        }
        #[cfg(feature = "persistent")]
        self.check_file();
    }

    /// Asserts that another process can read the learned sizes.
    #[cfg(feature = "persistent")]
    fn check_file(&self) {
        let entries = PersistentCache::at(self.caches.folder.path().join("sizes.json")).entries();
        assert!(!entries.is_empty(), "nothing was learned, or the file cannot be read");
    }
}

impl Caches {
    #[cfg(feature = "persistent")]
    fn new() -> Self {
        // In memory where the system has a folder there, because otherwise the disk would limit the number of attempts.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let persistent = PersistentCache::at(folder.path().join("sizes.json"));
        Self { global: GlobalCache::new(), stacktrace: StacktraceMemoryCache::new(), persistent, folder }
    }

    #[cfg(not(feature = "persistent"))]
    fn new() -> Self {
        Self { global: GlobalCache::new(), stacktrace: StacktraceMemoryCache::new() }
    }
}

impl Counts {
    /// Counts one more failure of this class.
    pub(crate) fn add(of_classes: &[AtomicU64; CLASSES.len()], class: Class) {
        let at = CLASSES.iter().position(|&known| known == class).expect("a known class");
        of_classes[at].fetch_add(1, Relaxed);
    }

    /// Asserts that every event has happened, because an event that never happens proves nothing.
    pub(crate) fn check(&self) {
        let Self { attempts, done, left, errors, panics, failures, injected, tasks, waits, fallbacks } = self;
        let counts = [attempts, done, left, errors, panics, tasks, waits, fallbacks];
        for count in counts.into_iter().chain(failures).chain(injected) {
            assert_ne!(count.load(Relaxed), 0, "something never happened: {self}");
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempts, done, left, errors, panics, failures, injected, tasks, waits, fallbacks } = self;
        let of = |count: &AtomicU64| count.load(Relaxed);
        write!(f, "{} attempts, calls: {} done, {} left early, ", of(attempts), of(done), of(left))?;
        write!(f, "{} errors, {} panics; failures: ", of(errors), of(panics))?;
        for (class, (failures, injected)) in CLASSES.iter().zip(failures.iter().zip(injected)) {
            write!(f, "{class:?} {} and {} injected, ", of(failures), of(injected))?;
        }
        write!(f, "{} tasks, {} waits, {} fallbacks", of(tasks), of(waits), of(fallbacks))
    }
}
