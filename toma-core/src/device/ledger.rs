//! The bytes of one device that are reserved, and the calls that wait for some.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::reservation::{NotReserved, Reservation};
use super::turn::Device;
use super::wait::{self, Wait, wake};
use super::watchdog::Alarm;
use crate::memory::{MemorySource, Reading};
use crate::nesting::Nesting;

/// How often the first entry looks at what is free, which changes without a word.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What is in the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused {
    /// What others have reserved, if they have.
    pub(super) others: Option<Reserved>,
    /// The entries ahead in the queue.
    pub(super) ahead: usize,
}

/// What living reservations have of the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reserved {
    pub(super) bytes: u64,
    /// What was free when the first of them was granted: together they never have more.
    pub(super) limit_bytes: u64,
}

/// The reservations of one device in one process.
#[derive(Debug)]
pub(super) struct Ledger {
    process: u32,
    living: usize,
    reserved: Option<Reserved>,
    waiting: VecDeque<Entry>,
}

#[derive(Debug)]
struct Entry {
    key: u64,
    until: Option<Instant>,
    waker: Option<Waker>,
}

impl Ledger {
    pub(super) fn new(process: u32) -> Self {
        Self { process, living: 0, reserved: None, waiting: VecDeque::new() }
    }

    /// Whether `bytes` more stay within what was free at first.
    fn has_room_for(&self, bytes: u64) -> bool {
        self.reserved.is_none_or(|Reserved { bytes: reserved, limit_bytes }| {
            reserved.checked_add(bytes).is_some_and(|sum| sum <= limit_bytes)
        })
    }

    fn grant(&mut self, bytes: u64, free_bytes: u64) {
        self.living += 1;
        let none = Reserved { bytes: 0, limit_bytes: free_bytes };
        self.reserved.get_or_insert(none).bytes += bytes;
    }

    fn give_back(&mut self, bytes: u64) {
        self.living -= 1;
        self.reserved = self.reserved.filter(|_| self.living > 0);
        if let Some(reserved) = &mut self.reserved {
            reserved.bytes -= bytes;
        }
    }

    /// Skips the other entries that are past their bound. Returns whom to wake.
    fn skip(&mut self, key: u64, now: Instant) -> Vec<Waker> {
        let mut woken = Vec::new();
        self.waiting.retain_mut(|entry| {
            let waits = entry.key == key || entry.until.is_none_or(|until| now < until);
            if !waits {
                woken.extend(entry.waker.take());
            }
            waits
        });
        woken
    }

    /// The place of an entry, which goes to the tail where it has none.
    fn place(&mut self, key: u64, until: Option<Instant>) -> usize {
        let known = self.waiting.iter().position(|entry| entry.key == key);
        known.unwrap_or_else(|| {
            self.waiting.push_back(Entry { key, until, waker: None });
            self.waiting.len() - 1
        })
    }

    fn remove(&mut self, key: u64) -> Option<Waker> {
        let at = self.waiting.iter().position(|entry| entry.key == key)?;
        self.waiting.remove(at)?.waker
    }

    fn first_waker(&mut self) -> Option<Waker> {
        self.waiting.front_mut()?.waker.take()
    }
}

impl Device {
    /// Changes what is reserved, and wakes the first entry then.
    fn change_ledger<R>(&self, change: impl FnOnce(&mut Ledger) -> R) -> R {
        let mut ledger = self.queue.ledger.lock_own();
        let result = change(&mut ledger);
        let first = ledger.first_waker();
        drop(ledger);
        wake(first);
        result
    }

    /// Gives back what was reserved in `process`.
    pub(super) fn give_back(&self, bytes: u64, process: u32) {
        self.change_ledger(|ledger| {
            if ledger.process == process {
                ledger.give_back(bytes);
            }
        });
    }
}

/// A wait for bytes.
#[derive(Debug)]
pub(super) struct Reserving<'a> {
    source: &'a dyn MemorySource,
    device: Device,
    bytes: u64,
    /// `None`: beyond the end of the clock.
    until: Option<Instant>,
    /// Tells its entry in the queue, while it waits.
    key: u64,
    look_at: Option<Instant>,
    alarm: Option<Alarm>,
}

impl<'a> Reserving<'a> {
    pub(super) fn new(source: &'a dyn MemorySource, bytes: u64, timeout: Duration) -> Self {
        // Of the whole process, so that a child of `fork` goes on with other keys.
        static KEYS: AtomicU64 = AtomicU64::new(0);
        let (device, key) = (Device::of(source), KEYS.fetch_add(1, Relaxed));
        let until = Instant::now().checked_add(timeout);
        Self { source, device, bytes, until, key, look_at: None, alarm: None }
    }

    /// The bytes, if they can be had now; if not, `waker` is told when others change that.
    fn ask(&mut self, reading: Option<Reading>, waker: &Waker) -> Result<Reservation, Refused> {
        let (now, waker) = (Instant::now(), waker.clone());
        let mut ledger = self.device.queue.ledger.lock_own();
        let skipped = ledger.skip(self.key, now);
        let ahead = ledger.place(self.key, self.until);
        let fits = ahead == 0 && ledger.has_room_for(self.bytes);
        let granted = reading.filter(|reading| fits && self.bytes <= reading.free_bytes);
        let others = ledger.reserved;
        let unused = if let Some(reading) = granted {
            ledger.grant(self.bytes, reading.free_bytes);
            Some(waker)
        } else {
            ledger.waiting[ahead].waker.replace(waker)
        };
        let soon = now.checked_add(LOOK_EVERY).filter(|_| ahead == 0);
        let bounds = ledger.waiting.range(..=ahead).filter_map(|entry| entry.until);
        self.look_at = bounds.chain(soon).min();
        let process = ledger.process;
        drop(ledger);
        wake(skipped);
        drop(unused);
        if granted.is_none() {
            return Err(Refused { others, ahead });
        }
        self.leave();
        Ok(Reservation { device: self.device.clone(), bytes: self.bytes, process })
    }

    /// Leaves the queue.
    fn leave(&self) {
        let waker = self.device.change_ledger(|ledger| ledger.remove(self.key));
        drop(waker);
    }

    /// What holds a turn never waits.
    fn is_late(&self) -> bool {
        Nesting::now().enclosing.holds_any() || self.until.is_some_and(|until| Instant::now() >= until)
    }
}

impl Wait for Reserving<'_> {
    type Output = Result<Reservation, NotReserved>;

    fn look(&mut self, waker: &Waker) -> Option<Self::Output> {
        // Without the lock: a memory source is foreign code.
        let reading = self.source.read();
        let refused = match self.ask(reading.as_ref().ok().copied(), waker) {
            Ok(reservation) => return Some(Ok(reservation)),
            Err(refused) => refused,
        };
        let hopeless = reading.as_ref().map_or(true, |reading| self.bytes > reading.total_bytes);
        if !(hopeless || self.is_late()) {
            return None;
        }
        // Not only when it is dropped, which may be much later.
        self.leave();
        let (device, asked_bytes) = (self.device.clone(), self.bytes);
        Some(Err(NotReserved { device, asked_bytes, refused, reading }))
    }

    fn look_again_at(&self) -> Option<Instant> {
        self.look_at
    }

    fn alarm(&mut self) -> &mut Option<Alarm> {
        &mut self.alarm
    }
}

impl Future for Reserving<'_> {
    type Output = Result<Reservation, NotReserved>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        wait::poll(self.get_mut(), context)
    }
}

impl Drop for Reserving<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}
