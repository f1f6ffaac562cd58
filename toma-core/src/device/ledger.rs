//! Reserved bytes of one device and the entries that wait for bytes, as plain functions like those of the
//! [queue](super::queue).
//!
//! # Why
//!
//! The first entry reads the free bytes every 10 ms, because no event reports that memory was freed.

use std::time::{Duration, Instant};

use super::fifo::Fifo;
use super::sleepers::SleeperId;
use crate::memory::Reading;

/// Interval at which the first entry reads the free bytes.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Reason why bytes were not granted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused {
    /// Sum of the reservations of others, if there are any.
    pub(super) others: Option<Reserved>,
    /// Number of entries ahead in the queue.
    pub(super) ahead: usize,
    /// When to look again without being woken.
    pub(super) look_at: Option<Instant>,
}

/// Sum of the live reservations of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reserved {
    pub(super) bytes: u64,
    /// Free bytes when the first of the reservations was granted; their sum never exceeds this.
    pub(super) limit_bytes: u64,
}

/// The reservations of one device in one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ledger {
    process: u32,
    reserved: Option<Reserved>,
    waiting: Fifo<()>,
}

/// A request for bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    /// Identifies the entry.
    pub(super) key: SleeperId,
    pub(super) bytes: u64,
    /// Bytes of the device that are promised in addition to the reservations.
    pub(super) promised: u64,
    pub(super) until: Option<Instant>,
}

impl Ledger {
    pub(super) fn new(process: u32) -> Self {
        Self { process, ..Self::default() }
    }

    /// True if `bytes` more stay within `limit_bytes`.
    fn has_room_for(&self, bytes: u64) -> bool {
        self.reserved.is_none_or(|Reserved { bytes: reserved, limit_bytes }| {
            reserved.checked_add(bytes).is_some_and(|sum| sum <= limit_bytes)
        })
    }

    fn grant(&mut self, bytes: u64, free_bytes: u64) {
        let none = Reserved { bytes: 0, limit_bytes: free_bytes };
        self.reserved.get_or_insert(none).bytes += bytes;
    }

    /// Gives back bytes that were reserved in `process`. Returns the wait to wake.
    pub(super) fn give_back(&mut self, bytes: u64, process: u32) -> Option<SleeperId> {
        let reserved = self.reserved.as_mut().filter(|_| process == self.process)?;
        reserved.bytes -= bytes;
        self.reserved.take_if(|reserved| reserved.bytes == 0);
        self.first()
    }

    /// Reserves the bytes in this process if they are available now; otherwise the entry is queued at the tail,
    /// unless it is queued already. Also returns the waits to wake.
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

    /// Removes an entry from the queue, if it is there. Returns the wait to wake.
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
