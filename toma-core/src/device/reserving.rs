//! Waiting for bytes, by a thread or by a task.

use std::time::{Duration, Instant};

use super::ledger::Wish;
use super::reservation::{NotReserved, Reservation};
use super::sleepers::{Key, wake};
use super::turn::Device;
use super::wait::{Wait, Waits};
use crate::memory::MemorySource;
use crate::nesting::Nesting;

#[derive(Debug)]
pub(super) struct ForBytes<'a> {
    source: &'a dyn MemorySource,
    device: Device,
    bytes: u64,
    until: Option<Instant>,
}

impl<'a> Waits<ForBytes<'a>> {
    /// A wait for bytes.
    pub(super) fn new(source: &'a dyn MemorySource, bytes: u64, timeout: Duration) -> Self {
        let until = Instant::now().checked_add(timeout);
        let on = ForBytes { source, device: Device::of(source), bytes, until };
        Self { on, key: Some(Key::new()) }
    }
}

impl ForBytes<'_> {
    /// What holds a turn never waits.
    fn is_late(&self) -> bool {
        Nesting::now().enclosing.holds_any() || self.until.is_some_and(|until| Instant::now() >= until)
    }
}

impl Wait for ForBytes<'_> {
    type Output = Result<Reservation, NotReserved>;

    fn look(&mut self, key: Key) -> Result<Self::Output, Option<Instant>> {
        let &mut Self { source, ref device, bytes, until } = self;
        // Without the lock: a memory source is foreign code.
        let reading = source.read();
        let free = reading.as_ref().ok().copied();
        let now = Instant::now();
        let (answer, woken) = device.queue.ledger.lock_own().ask(Wish { key, bytes, until }, free, now);
        wake(woken);
        let refused = match answer {
            Ok(process) => return Ok(Ok(Reservation { device: device.clone(), bytes, process })),
            Err(refused) => refused,
        };
        let is_hopeless = free.is_none_or(|free| bytes > free.total_bytes);
        if !(is_hopeless || self.is_late()) {
            return Err(refused.look_at);
        }
        // Not only when it is dropped, which may be much later.
        self.leave(key);
        Ok(Err(NotReserved { device: self.device.clone(), asked_bytes: bytes, refused, reading }))
    }

    fn leave(&mut self, key: Key) {
        let first = self.device.queue.ledger.lock_own().withdraw(key);
        wake(first);
    }
}
