//! Waiting for bytes, by a thread or by a task.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::ledger::{Asked, Refused, Wish};
use super::reservation::{NotReserved, Reservation};
use super::turn::Device;
use super::wait::{self, Wait, wake};
use super::watchdog::Alarm;
use crate::memory::{MemorySource, Reading};
use crate::nesting::Nesting;

/// A wait for bytes.
#[derive(Debug)]
pub(super) struct Reserving<'a> {
    source: &'a dyn MemorySource,
    device: Device,
    wish: Wish,
    look_at: Option<Instant>,
    alarm: Option<Alarm>,
}

impl<'a> Reserving<'a> {
    pub(super) fn new(source: &'a dyn MemorySource, bytes: u64, timeout: Duration) -> Self {
        // Of the whole process, so that a child of `fork` goes on with other keys.
        static KEYS: AtomicU64 = AtomicU64::new(0);
        let until = Instant::now().checked_add(timeout);
        let wish = Wish { key: KEYS.fetch_add(1, Relaxed), bytes, until };
        Self { source, device: Device::of(source), wish, look_at: None, alarm: None }
    }

    fn ask(&mut self, free: Option<Reading>, waker: &Waker) -> Result<Reservation, Refused> {
        let (now, waker) = (Instant::now(), waker.clone());
        let mut ledger = self.device.queue.ledger.lock_own();
        let Asked { answer, look_at, woken, unused } = ledger.ask(self.wish, free, now, waker);
        drop(ledger);
        wake(woken);
        drop(unused);
        self.look_at = look_at;
        let process = answer?;
        Ok(Reservation { device: self.device.clone(), bytes: self.wish.bytes, process })
    }

    /// Leaves the queue.
    fn leave(&self) {
        let left = self.device.queue.ledger.lock_own().withdraw(self.wish.key);
        if let Some((waker, first)) = left {
            wake(first);
            drop(waker);
        }
    }

    /// What holds a turn never waits.
    fn is_late(&self) -> bool {
        Nesting::now().enclosing.holds_any() || self.wish.until.is_some_and(|until| Instant::now() >= until)
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
        let hopeless = reading.as_ref().map_or(true, |reading| self.wish.bytes > reading.total_bytes);
        if !(hopeless || self.is_late()) {
            return None;
        }
        // Not only when it is dropped, which may be much later.
        self.leave();
        let (device, asked_bytes) = (self.device.clone(), self.wish.bytes);
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
