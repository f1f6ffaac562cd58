//! State shared by threads: the current bytes of each device, and each thread's watermarks and counters.
//!
//! A thread writes its own counters, and raises the watermarks of all. So nothing waits for a lock, and
//! counters may be read at any time.
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

/// Bytes of one device at one moment, or the highest of each over a while.
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

    /// Adds allocated bytes. Returns the new sum.
    pub(super) fn allocate(&self, bytes: u64) -> u64 {
        at_least_none(self.allocated.fetch_add(bytes, SeqCst).wrapping_add(bytes))
    }

    /// Sets the allocated bytes, independent of earlier reports.
    pub(super) fn correct(&self, bytes: u64) {
        self.allocated.store(bytes, SeqCst);
    }

    pub(super) fn free(&self, bytes: u64) {
        self.allocated.fetch_sub(bytes, SeqCst);
    }

    pub(super) fn reserve(&self, total: u64) {
        self.reserved.store(total, SeqCst);
    }

    /// Restarts the watermark of a device. Returns the highest levels since the last restart, and the current levels.
    ///
    /// The current levels are read after the old watermark is taken, so a rise in between is in one of the two.
    pub(super) fn restart(&self, device: &Self) -> (Levels, Levels) {
        let highest = Levels { allocated: take(&self.allocated), reserved: take(&self.reserved) };
        let now = device.get();
        self.raise(now);
        (highest, now)
    }
}

/// Replaces a sum that has wrapped around below zero by 0: a freed block was never reported.
fn at_least_none(sum: u64) -> u64 {
    if sum > i64::MAX.unsigned_abs() { 0 } else { sum }
}

/// Does as `fetch_max`, which costs more than a load. Most allocations raise nothing.
fn raise(level: &AtomicU64, to: u64) {
    if level.load(SeqCst) < to {
        level.fetch_max(to, SeqCst);
    }
}

/// Does as `swap(0)`, for levels that are often 0: most devices reserve nothing.
fn take(level: &AtomicU64) -> u64 {
    if level.load(SeqCst) == 0 { 0 } else { level.swap(0, SeqCst) }
}

/// Counters of one thread at a time.
#[derive(Debug, Default)]
pub(super) struct Account {
    taken: AtomicBool,
    /// True if a thread may have used it. Unused accounts are at the end.
    is_used: AtomicBool,
    /// True if the thread is in a profiled function. Only then are its watermarks raised.
    pub(super) is_profiling: AtomicBool,
    /// The current line, for threads that are in none.
    pub(super) line: AtomicU32,
    /// State that other threads write, by device.
    pub(super) shared: Box<[SharedCounts]>,
    pub(super) lines: Growing<LineCounters>,
    /// Counters of events in no line.
    pub(super) outside: LineCounters,
}

/// State that other threads write into an account, for one device.
#[derive(Debug, Default)]
pub(super) struct SharedCounts {
    /// Highest levels since the current line began.
    pub(super) watermark: Gauge,
    /// Counts of threads in no line, while this was the only thread in a line.
    pub(super) helpers: Helpers,
}

/// A count of a line, as an index into the sums below.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sum {
    Allocated,
    Freed,
    Fetched,
    Offloaded,
    Ooms,
}

/// Sums of one thread since its start.
pub(super) type Sums = [u64; 5];

/// Sums that any thread adds to.
pub(super) type Helpers = [AtomicU64; 5];

/// A row of one thread.
#[derive(Debug, Default)]
pub(super) struct LineCounters {
    pub(super) hits: Counter,
    pub(super) stays: Counter,
    pub(super) nanoseconds: Counter,
    pub(super) devices: OnceLock<Box<[DeviceCounters]>>,
}

/// The part of a row that is separate for each device.
#[derive(Debug, Default)]
pub(super) struct DeviceCounters {
    pub(super) peak: Counter,
    pub(super) reserved: Counter,
    pub(super) rise: Counter,
    pub(super) current: Counter,
    pub(super) kept: Counter,
    pub(super) backward: Counter,
    pub(super) sums: [Counter; 5],
}

impl LineCounters {
    /// Returns the counters of one of so many devices.
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

/// Numbers of threads and lines that need no memory when they begin.
const READY_THREADS: usize = 16;
const READY_LINES: u32 = 254;

/// All accounts. The account of a thread that has ended is reused by another thread, because rows add up.
#[derive(Debug, Default)]
pub(super) struct Accounts(OnceLock<Box<AccountLink>>);

#[derive(Debug)]
struct AccountLink {
    account: Arc<Account>,
    next: Accounts,
}

impl Accounts {
    /// Returns the accounts that a thread may have used.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Account>> {
        self.all().take_while(|account| account.is_used.load(SeqCst))
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Account>> {
        std::iter::successors(self.0.get(), |link| link.next.0.get()).map(|link| &link.account)
    }

    /// Creates accounts for some threads in advance, with room for some lines.
    pub(super) fn prepare(&self, devices: usize) {
        let accounts = [(); READY_THREADS].map(|()| self.take(devices));
        for account in accounts {
            account.lines.make_room(READY_LINES);
            account.is_used.store(false, SeqCst);
            account.give_back();
        }
    }

    /// Returns an account that no other thread has.
    pub(super) fn take(&self, devices: usize) -> Arc<Account> {
        let is_free = |account: &&Arc<Account>| {
            // Set first, so that no used account is behind one that seems unused.
            account.is_used.store(true, SeqCst);
            !account.taken.swap(true, SeqCst)
        };
        self.all().find(is_free).cloned().unwrap_or_else(|| self.add(devices))
    }

    fn add(&self, devices: usize) -> Arc<Account> {
        let shared = (0..devices).map(|_| SharedCounts::default()).collect();
        let account =
            Arc::new(Account { taken: true.into(), is_used: true.into(), shared, ..Account::default() });
        let mut link = Box::new(AccountLink { account: Arc::clone(&account), next: Self::default() });
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
