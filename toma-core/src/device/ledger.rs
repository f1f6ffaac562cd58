//! The bytes of one device that are reserved, and the entries that wait for some, as plain functions like
//! those of the [queue](super::queue).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

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
}

/// What living reservations have of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reserved {
    pub(super) bytes: u64,
    /// What was free when the first of them was granted: together they never have more.
    pub(super) limit_bytes: u64,
}

/// The reservations of one device in one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ledger<W> {
    process: u32,
    living: usize,
    reserved: Option<Reserved>,
    waiting: VecDeque<Entry<W>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry<W> {
    key: u64,
    until: Option<Instant>,
    waker: Option<W>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    /// Tells the entry from all others.
    pub(super) key: u64,
    pub(super) bytes: u64,
    pub(super) until: Option<Instant>,
}

/// What came of asking.
#[derive(Debug)]
pub(super) struct Asked<W> {
    /// Granted in this process, or refused.
    pub(super) answer: Result<u32, Refused>,
    /// When to look again although nothing was woken.
    pub(super) look_at: Option<Instant>,
    pub(super) woken: Vec<W>,
    pub(super) unused: Option<W>,
}

impl<W> Ledger<W> {
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

    /// Gives back what was reserved in `process`. Returns whom to wake.
    pub(super) fn give_back(&mut self, bytes: u64, process: u32) -> Option<W> {
        if process != self.process {
            return None;
        }
        self.living -= 1;
        self.reserved = self.reserved.filter(|_| self.living > 0);
        if let Some(reserved) = &mut self.reserved {
            reserved.bytes -= bytes;
        }
        self.first_waker()
    }

    /// Skips the other entries that are past their bound. Returns whom to wake.
    fn skip(&mut self, key: u64, now: Instant) -> Vec<W> {
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

    /// Reserves the bytes if they can be had now; if not, `waker` is told when others change that.
    pub(super) fn ask(&mut self, wish: Wish, free: Option<Reading>, now: Instant, waker: W) -> Asked<W> {
        let Wish { key, bytes, until } = wish;
        let mut woken = self.skip(key, now);
        let ahead = self.place(key, until);
        let others = self.reserved;
        let fits = ahead == 0 && self.has_room_for(bytes);
        if let Some(free) = free.filter(|free| fits && bytes <= free.free_bytes) {
            self.grant(bytes, free.free_bytes);
            let before = self.waiting.pop_front().and_then(|entry| entry.waker);
            woken.extend(self.first_waker());
            woken.extend(before);
            return Asked { answer: Ok(self.process), look_at: None, woken, unused: Some(waker) };
        }
        let unused = self.waiting[ahead].waker.replace(waker);
        let soon = now.checked_add(LOOK_EVERY).filter(|_| ahead == 0);
        let bounds = self.waiting.range(..=ahead).filter_map(|entry| entry.until);
        let look_at = bounds.chain(soon).min();
        Asked { answer: Err(Refused { others, ahead }), look_at, woken, unused }
    }

    /// The place of an entry, which goes to the tail where it has none.
    fn place(&mut self, key: u64, until: Option<Instant>) -> usize {
        self.position(key).unwrap_or_else(|| {
            self.waiting.push_back(Entry { key, until, waker: None });
            self.waiting.len() - 1
        })
    }

    fn position(&self, key: u64) -> Option<usize> {
        self.waiting.iter().position(|entry| entry.key == key)
    }

    /// Takes an entry out of the queue, if it is there. Returns its waker, and whom to wake.
    pub(super) fn withdraw(&mut self, key: u64) -> Option<(Option<W>, Option<W>)> {
        let entry = self.waiting.remove(self.position(key)?)?;
        Some((entry.waker, self.first_waker()))
    }

    fn first_waker(&mut self) -> Option<W> {
        self.waiting.front_mut()?.waker.take()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.living == 0 && self.waiting.is_empty()
    }
}
