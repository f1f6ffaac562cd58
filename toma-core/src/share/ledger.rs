//! Who has reserved bytes of which device, and who waits for some.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::reservation::{NotReserved, Reservation};
use super::wait::{self, Wait};
use super::wake::wake;
use super::watchdog::Alarm;
use crate::memory::{MemorySource, Reading};

/// How often the first of those who wait looks at what is free, which changes without a word.
const LOOK_EVERY: Duration = Duration::from_millis(10);

static LEDGER: Mutex<Ledger> = Mutex::new(Ledger { keys: 0, accounts: BTreeMap::new() });

/// What is in the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused {
    /// What others have reserved, if anybody has.
    pub(super) others: Option<Reserved>,
    /// How many wait and came before.
    pub(super) ahead: usize,
}

/// What living reservations have of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reserved {
    pub(super) bytes: u64,
    /// What was free when the first of them was granted: together they never have more.
    pub(super) limit_bytes: u64,
}

/// The reservations of all devices: of each by its name, while it has any or somebody waits.
#[derive(Debug)]
struct Ledger {
    keys: u64,
    accounts: BTreeMap<String, Account>,
}

#[derive(Debug, Default)]
struct Account {
    living: usize,
    reserved: Option<Reserved>,
    waiting: VecDeque<(u64, Option<Waker>)>,
}

impl Account {
    fn position(&self, key: u64) -> Option<usize> {
        self.waiting.iter().position(|(of, _)| *of == key)
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
}

fn ledger() -> MutexGuard<'static, Ledger> {
    LEDGER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a reservation had is no longer reserved.
pub(super) fn give_back(device: &str, bytes: u64) {
    change(device, |account| account.give_back(bytes));
}

/// Changes the account of a device and wakes whoever is first then.
fn change<R>(device: &str, change: impl FnOnce(&mut Account) -> R) -> R {
    let mut ledger = ledger();
    let account = ledger.accounts.entry(device.to_owned()).or_default();
    let result = change(account);
    let first = account.waiting.front_mut().and_then(|(_, waker)| waker.take());
    if account.living == 0 && account.waiting.is_empty() {
        ledger.accounts.remove(device);
    }
    drop(ledger);
    wake(first);
    result
}

/// A wait for bytes.
#[derive(Debug)]
pub(super) struct Reserving<'a> {
    device: &'a dyn MemorySource,
    bytes: u64,
    /// `None`: beyond the end of the clock.
    until: Option<Instant>,
    /// Its place in the queue, 0 while it has none.
    key: u64,
    /// When to look again.
    next: Option<Instant>,
    alarm: Option<Alarm>,
}

impl<'a> Reserving<'a> {
    pub(super) fn new(device: &'a dyn MemorySource, bytes: u64, timeout: Duration) -> Self {
        let until = Instant::now().checked_add(timeout);
        Self { device, bytes, until, key: 0, next: until, alarm: None }
    }

    fn queue_up(&mut self) {
        if self.key == 0 {
            let mut ledger = ledger();
            ledger.keys += 1;
            self.key = ledger.keys;
            let account = ledger.accounts.entry(self.device.name().to_owned()).or_default();
            account.waiting.push_back((self.key, None));
        }
    }

    /// Leaves the queue: with `bytes` of what is free, or without.
    fn leave(&mut self, granted: Option<Reading>) {
        let key = mem::take(&mut self.key);
        let waker = change(self.device.name(), |account| {
            if let Some(reading) = granted {
                account.grant(self.bytes, reading.free_bytes);
            }
            account.position(key).and_then(|at| account.waiting.remove(at))
        });
        drop(waker);
    }

    /// The bytes, if they can be had now; if not, `waker` is told when others change that.
    fn ask(&mut self, now: Option<Reading>, waker: &Waker) -> Result<Reservation, Refused> {
        let waker = waker.clone();
        let mut ledger = ledger();
        let account = ledger.accounts.entry(self.device.name().to_owned()).or_default();
        let ahead = account.position(self.key).expect("whoever looks is in the queue");
        if ahead == 0
            && account.has_room_for(self.bytes)
            && now.is_some_and(|now| self.bytes <= now.free_bytes)
        {
            drop(ledger);
            self.leave(now);
            return Ok(Reservation { device: self.device.name().to_owned(), bytes: self.bytes });
        }
        let before = account.waiting[ahead].1.replace(waker);
        let refused = Refused { others: account.reserved, ahead };
        drop(ledger);
        drop(before);
        let soon = Instant::now().checked_add(LOOK_EVERY).filter(|_| ahead == 0);
        self.next = soon.into_iter().chain(self.until).min();
        Err(refused)
    }

    fn not_reserved(&self, refused: Refused, reading: io::Result<Reading>) -> NotReserved {
        NotReserved { device: self.device.name().to_owned(), asked_bytes: self.bytes, refused, reading }
    }
}

impl Wait for Reserving<'_> {
    type Output = Result<Reservation, NotReserved>;

    fn look(&mut self, waker: &Waker) -> Option<Self::Output> {
        self.queue_up();
        // Without the lock: a memory is anybody's code.
        let read = self.device.read();
        let refused = match self.ask(read.as_ref().ok().copied(), waker) {
            Ok(reservation) => return Some(Ok(reservation)),
            Err(refused) => refused,
        };
        let hopeless = read.as_ref().map_or(true, |reading| self.bytes > reading.total_bytes);
        let late = self.until.is_some_and(|until| Instant::now() >= until);
        if !(hopeless || late) {
            return None;
        }
        // Not only when it is dropped, which may be much later.
        self.leave(None);
        Some(Err(self.not_reserved(refused, read)))
    }

    fn look_again_at(&self) -> Option<Instant> {
        self.next
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
        if self.key != 0 {
            self.leave(None);
        }
    }
}
