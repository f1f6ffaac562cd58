//! The bytes of one device that are reserved, and the entries that wait for some, as plain functions like
//! those of the [queue](super::queue).
//!
//! # Why
//!
//! The first entry looks every 10 ms, because no event tells that memory was freed.

use std::time::{Duration, Instant};

use super::fifo::Fifo;
use super::sleepers::SleeperId;
use crate::memory::Reading;

/// How often the first entry looks at what is free, which changes without a word.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What is in the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused {
    /// What others have reserved, if they have.
    pub(super) others: Option<Reserved>,
    /// The entries ahead in the queue.
    pub(super) ahead: usize,
    /// When to look again although nothing was woken.
    pub(super) look_at: Option<Instant>,
}

/// What living reservations have of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reserved {
    pub(super) bytes: u64,
    /// What was free when the first of them was granted: together they never have more.
    pub(super) limit_bytes: u64,
}

/// The reservations of one device in one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ledger {
    process: u32,
    reserved: Option<Reserved>,
    waiting: Fifo<()>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    /// Tells the entry from all others.
    pub(super) key: SleeperId,
    pub(super) bytes: u64,
    /// What is promised beside them.
    pub(super) promised: u64,
    pub(super) until: Option<Instant>,
}

impl Ledger {
    pub(super) fn new(process: u32) -> Self {
        Self { process, ..Self::default() }
    }

    /// Whether `bytes` more stay within what was free at first.
    fn has_room_for(&self, bytes: u64) -> bool {
        self.reserved.is_none_or(|Reserved { bytes: reserved, limit_bytes }| {
            reserved.checked_add(bytes).is_some_and(|sum| sum <= limit_bytes)
        })
    }

    fn grant(&mut self, bytes: u64, free_bytes: u64) {
        let none = Reserved { bytes: 0, limit_bytes: free_bytes };
        self.reserved.get_or_insert(none).bytes += bytes;
    }

    /// Gives back what was reserved in `process`. Returns what to wake.
    pub(super) fn give_back(&mut self, bytes: u64, process: u32) -> Option<SleeperId> {
        let reserved = self.reserved.as_mut().filter(|_| process == self.process)?;
        reserved.bytes -= bytes;
        self.reserved.take_if(|reserved| reserved.bytes == 0);
        self.first()
    }

    /// Reserves the bytes in this process if they can be had now; otherwise the entry goes to the tail, where it
    /// has no place yet. Beside it comes what to wake.
    pub(super) fn ask(
        &mut self,
        wish: Wish,
        free: Option<Reading>,
        now: Instant,
    ) -> (Result<u32, Refused>, Vec<SleeperId>) {
        let Wish { key, bytes, promised, until } = wish;
        let mut woken = self.waiting.skip(now, Some(key));
        let ahead = self.waiting.place(key).unwrap_or_else(|| self.waiting.push(key, (), until));
        let all = bytes.saturating_add(promised);
        let fits = ahead == 0 && self.has_room_for(all);
        if let Some(free) = free.filter(|free| fits && all <= free.free_bytes) {
            self.grant(bytes, free.free_bytes);
            woken.extend(self.withdraw(key));
            return (Ok(self.process), woken);
        }
        let soon = now.checked_add(LOOK_EVERY).filter(|_| ahead == 0);
        let look_at = self.waiting.first_bound(ahead).into_iter().chain(soon).min();
        (Err(Refused { others: self.reserved, ahead, look_at }), woken)
    }

    /// Takes an entry out of the queue, if it is there. Returns what to wake.
    pub(super) fn withdraw(&mut self, key: SleeperId) -> Option<SleeperId> {
        self.waiting.remove(key).then(|| self.first()).flatten()
    }

    fn first(&self) -> Option<SleeperId> {
        self.waiting.head().map(|(key, ())| key)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.reserved.is_none() && self.waiting.is_empty()
    }
}
