//! What threads share: the bytes of each device now, and each thread's watermarks and counters.
//!
//! A thread writes its own counters, and raises the watermarks of all. So nothing waits for a lock, and what
//! is counted may be read at any time.
//!
//! # Why
//!
//! Watermarks are restarted at each mark, and never reset on the device. Each profiling thread has one for
//! each device, raised by all allocations. So threads disturb neither each other nor the device's own
//! counters.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::counters::{Counter, Growing};

/// Bytes of one device at one moment, or the most of each there were for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Levels {
    pub(super) allocated: u64,
    pub(super) reserved: u64,
}

impl Levels {
    pub(super) fn max(self, other: Self) -> Self {
        Self { allocated: self.allocated.max(other.allocated), reserved: self.reserved.max(other.reserved) }
    }
}

/// Levels that any thread changes.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    allocated: AtomicU64,
    reserved: AtomicU64,
}

impl Gauge {
    pub(super) fn get(&self) -> Levels {
        Levels { allocated: at_least_none(self.allocated.load(SeqCst)), reserved: self.reserved.load(SeqCst) }
    }

    pub(super) fn raise(&self, to: Levels) {
        raise(&self.allocated, to.allocated);
        raise(&self.reserved, to.reserved);
    }

    /// The bytes that are allocated then.
    pub(super) fn allocate(&self, bytes: u64) -> u64 {
        at_least_none(self.allocated.fetch_add(bytes, SeqCst).wrapping_add(bytes))
    }

    /// So many bytes are allocated, whatever was said before.
    pub(super) fn correct(&self, bytes: u64) {
        self.allocated.store(bytes, SeqCst);
    }

    pub(super) fn free(&self, bytes: u64) {
        self.allocated.fetch_sub(bytes, SeqCst);
    }

    pub(super) fn reserve(&self, total: u64) {
        self.reserved.store(total, SeqCst);
    }

    /// Begins to watch a device anew. Answers the highest levels since the last time, and those of now.
    ///
    /// The levels of now are read after the old watermark is taken. So what rises meanwhile is in one of both.
    pub(super) fn restart(&self, device: &Self) -> (Levels, Levels) {
        let highest = Levels { allocated: take(&self.allocated), reserved: take(&self.reserved) };
        let now = device.get();
        self.raise(now);
        (highest, now)
    }
}

/// A sum that has wrapped around below zero is none: a block was freed that was never told of.
fn at_least_none(sum: u64) -> u64 {
    if sum > i64::MAX.unsigned_abs() { 0 } else { sum }
}

/// As `fetch_max`, which costs more than to look. Most allocations raise nothing.
fn raise(level: &AtomicU64, to: u64) {
    if level.load(SeqCst) < to {
        level.fetch_max(to, SeqCst);
    }
}

/// As `swap(0)`, for levels that are often 0: most devices reserve nothing.
fn take(level: &AtomicU64) -> u64 {
    if level.load(SeqCst) == 0 { 0 } else { level.swap(0, SeqCst) }
}

/// What one thread at a time counts.
#[derive(Debug, Default)]
pub(super) struct Account {
    taken: AtomicBool,
    /// Whether a thread may have had it. Those that none had stand at the end.
    is_used: AtomicBool,
    /// Whether the thread is in a profiled function. Only then are its watermarks raised.
    pub(super) is_profiling: AtomicBool,
    /// The line in force, for threads that are in none.
    pub(super) line: AtomicU32,
    /// By device.
    pub(super) shared: Box<[Shared]>,
    pub(super) lines: Growing<LineCounters>,
    /// What belongs to no line.
    pub(super) outside: LineCounters,
}

/// What other threads write into an account, for one device.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The highest levels since the line in force began.
    pub(super) watermark: Gauge,
    /// What threads in no line did while this was the only one in a line.
    pub(super) helpers: Helpers,
}

/// Sums that any thread adds to.
#[derive(Debug, Default)]
pub(super) struct Helpers {
    pub(super) allocated: AtomicU64,
    pub(super) freed: AtomicU64,
    pub(super) fetched: AtomicU64,
    pub(super) offloaded: AtomicU64,
    pub(super) ooms: AtomicU64,
}

/// A row of one thread.
#[derive(Debug, Default)]
pub(super) struct LineCounters {
    pub(super) hits: Counter,
    pub(super) stays: Counter,
    pub(super) nanoseconds: Counter,
    pub(super) devices: OnceLock<Box<[DeviceCounters]>>,
}

/// The part of a row that is told apart by device.
#[derive(Debug, Default)]
pub(super) struct DeviceCounters {
    pub(super) peak: Counter,
    pub(super) reserved: Counter,
    pub(super) rise: Counter,
    pub(super) current: Counter,
    pub(super) allocated: Counter,
    pub(super) freed: Counter,
    pub(super) kept: Counter,
    pub(super) fetched: Counter,
    pub(super) offloaded: Counter,
    pub(super) backward: Counter,
    pub(super) ooms: Counter,
}

impl LineCounters {
    /// The counters of one of so many devices.
    pub(super) fn device(&self, device: usize, of: usize) -> &DeviceCounters {
        &self.devices.get_or_init(|| (0..of).map(|_| DeviceCounters::default()).collect())[device]
    }

    pub(super) fn spend(&self, time: Duration) {
        self.nanoseconds.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn time(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.get())
    }
}

/// As many threads and lines as need no memory when they begin.
const READY_THREADS: usize = 16;
const READY_LINES: u32 = 254;

/// The accounts there are. One whose thread has ended is taken by another thread, because rows add up.
#[derive(Debug, Default)]
pub(super) struct Accounts(OnceLock<Box<Link>>);

#[derive(Debug)]
struct Link {
    account: Arc<Account>,
    next: Accounts,
}

impl Accounts {
    /// Those that a thread may have had.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Account>> {
        self.all().take_while(|account| account.is_used.load(SeqCst))
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Account>> {
        std::iter::successors(self.0.get(), |link| link.next.0.get()).map(|link| &link.account)
    }

    /// Has accounts ready for some threads, with room for some lines.
    pub(super) fn prepare(&self, devices: usize) {
        let accounts = [(); READY_THREADS].map(|()| self.take(devices));
        for account in accounts {
            account.lines.make_room(READY_LINES);
            account.is_used.store(false, SeqCst);
            account.give_back();
        }
    }

    /// An account that no other thread has.
    pub(super) fn take(&self, devices: usize) -> Arc<Account> {
        let is_free = |account: &&Arc<Account>| {
            // First, so that none behind it seems used while it does not.
            account.is_used.store(true, SeqCst);
            !account.taken.swap(true, SeqCst)
        };
        self.all().find(is_free).cloned().unwrap_or_else(|| self.add(devices))
    }

    fn add(&self, devices: usize) -> Arc<Account> {
        let shared = (0..devices).map(|_| Shared::default()).collect();
        let account =
            Arc::new(Account { taken: true.into(), is_used: true.into(), shared, ..Account::default() });
        let mut link = Box::new(Link { account: Arc::clone(&account), next: Self::default() });
        let mut end = self;
        loop {
            match end.0.set(link) {
                Ok(()) => return account,
                Err(refused) => link = refused,
            }
            end = end.0.get().map_or(end, |link| &link.next);
        }
    }
}

impl Account {
    pub(super) fn is_profiling(&self) -> bool {
        self.is_profiling.load(SeqCst)
    }

    pub(super) fn give_back(&self) {
        self.taken.store(false, SeqCst);
    }
}
