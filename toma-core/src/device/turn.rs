//! A device as seen by calls, and the turns that their attempts take on it.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::ledger::Ledger;
use super::process::PerProcess;
use super::queue::{Admitted, QueueState, Seen, TurnKind};
use super::sleepers::{SleeperId, wake};
use crate::nesting::{DeviceId, Enclosing, Nesting, TurnId};

/// State that all users of one device share.
pub(super) struct Queue {
    pub(super) name: Box<str>,
    id: DeviceId,
    pub(super) state: PerProcess<Mutex<QueueState>>,
    pub(super) ledger: PerProcess<Mutex<Ledger>>,
    /// Promised bytes that are not allocated yet.
    pub(super) promised: PerProcess<AtomicU64>,
    /// True if a turn is marked or a wait was in vain. Read without the lock, at the beginning and the end of every
    /// attempt.
    is_unusual: AtomicBool,
}

/// A device, identified by the name of its memory source.
#[derive(Clone)]
pub(crate) struct Device {
    pub(super) queue: Handle,
}

/// Queue of a device: one that lives as long as the process, which saves two atomic counts per turn, or a counted
/// one, for names that are added when many queues exist already.
#[derive(Clone)]
pub(super) enum Handle {
    Stays(&'static Queue),
    Counted(Arc<Queue>),
}

impl Deref for Handle {
    type Target = Queue;

    #[inline]
    fn deref(&self) -> &Queue {
        match self {
            Self::Stays(queue) => queue,
            Self::Counted(queue) => queue,
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.name()).finish()
    }
}

impl Device {
    pub(crate) fn name(&self) -> &str {
        &self.queue.name
    }

    #[inline]
    pub(crate) fn id(&self) -> DeviceId {
        self.queue.id
    }

    /// Begins a shared turn at once; `None` if an entry waits or a turn is exclusive, so that the attempt has to
    /// [wait](Self::wait_for). Not for attempts inside a turn.
    #[inline]
    pub(crate) fn try_shared(&self) -> Option<Turn> {
        let begun = self.queue.state.lock().try_shared();
        begun.map(|begun| self.turn(begun))
    }

    /// Begins a shared turn next to all others, even an exclusive one, for attempts that may not wait.
    #[inline]
    pub(crate) fn begin_beside(&self) -> Turn {
        let begun = self.queue.state.lock().begin(TurnKind::Shared);
        self.turn(begun)
    }

    #[inline]
    pub(super) fn turn(&self, begun: Admitted) -> Turn {
        Turn { device: self.clone(), begun }
    }

    /// Returns the snapshot of the device for an attempt that begins inside a turn there.
    pub(crate) fn seen(&self) -> Seen {
        self.queue.state.lock().seen()
    }

    /// True if others ran when the attempt with the snapshot `seen` began, run now, or have begun since.
    pub(crate) fn has_contention(&self, seen: Seen) -> bool {
        let has_contention = self.queue.state.lock().has_contention(seen);
        // The contention may be a leftover of the parent's threads, in a child of `fork`.
        has_contention && self.queue.state.lock_own().has_contention(seen)
    }

    /// Begins a measurement, unless an enclosing, a concurrent or a nested attempt is being measured.
    pub(crate) fn measure(&self) -> Option<Measurement> {
        let key = self.queue.state.lock_own().measure()?;
        Some(Measurement { device: self.clone(), key })
    }

    /// Marks the turn of an enclosing attempt because a loop inside gave way; see [`Enclosing::promised_on`].
    pub(crate) fn mark(&self, turn: TurnId) {
        let mut state = self.queue.state.lock();
        state.mark(turn);
        self.queue.publish(&state);
    }

    /// True if calls may wait for the device: not for a while after a wait that lasted its full bound.
    #[inline]
    pub(crate) fn has_patience(&self, now: impl FnOnce() -> Instant) -> bool {
        !self.queue.is_unusual.load(Relaxed) || self.ask_patience(now())
    }

    #[cold]
    fn ask_patience(&self, now: Instant) -> bool {
        let mut state = self.queue.state.lock_own();
        let has_patience = state.has_patience(now);
        self.queue.publish(&state);
        has_patience
    }
}

impl Queue {
    pub(super) fn new(name: &str) -> Self {
        let state = PerProcess::new(|process| Mutex::new(QueueState::new(process)));
        let ledger = PerProcess::new(|process| Mutex::new(Ledger::new(process)));
        let promised = PerProcess::new(|_| AtomicU64::new(0));
        let is_unusual = AtomicBool::new(false);
        Self { name: name.into(), id: DeviceId::new(), state, ledger, promised, is_unusual }
    }

    /// Updates the flag that is read without the lock.
    pub(super) fn publish(&self, state: &QueueState) {
        self.is_unusual.store(state.is_unusual(), Relaxed);
    }

    /// Skips and grants, if anything waits, and wakes all returned waits except `own`.
    #[cold]
    pub(super) fn look(&self, own: Option<SleeperId>) {
        let woken = self.state.lock_own().look(Instant::now());
        wake(woken.into_iter().filter(|&key| Some(key) != own));
    }
}

/// An attempt's turn on a device; ends when dropped.
///
/// Drop it after everything else of the attempt, also when the attempt panicked or is a future that is dropped.
#[must_use = "the turn ends when this is dropped"]
#[derive(Debug)]
pub(crate) struct Turn {
    pub(super) device: Device,
    begun: Admitted,
}

impl Turn {
    #[inline]
    pub(crate) fn is_exclusive(&self) -> bool {
        self.begun.kind == TurnKind::Exclusive
    }

    /// True if contention was to be expected when the attempt began.
    #[inline]
    pub(crate) fn may_be_contended(&self) -> bool {
        self.begun.seen.may_be_contended()
    }

    /// True if other turns ran when the attempt began, run now, or have begun since.
    ///
    /// An exclusive turn has contention if attempts that never wait begin next to it.
    pub(crate) fn has_contention(&self) -> bool {
        self.device.has_contention(self.begun.seen)
    }

    /// Begins the next attempt of the piece in the same turn; contention and marks count from now on.
    pub(crate) fn renew(&mut self) {
        let mut state = self.device.queue.state.lock();
        state.unmark(self.begun.id);
        self.begun.seen = state.seen();
    }

    /// True if a loop inside [gave way](Device::mark): an attempt that fails is then redone, whatever its error.
    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        let queue = &self.device.queue;
        queue.is_unusual.load(Relaxed) && queue.state.lock().is_marked(self.begun.id)
    }

    /// Nests the work of the attempt in this turn; `promises` means that it is repeated exclusively after
    /// contention.
    #[inline]
    pub(crate) fn enclose(&self, nesting: &mut Enclosing, promises: bool) {
        nesting.enter(self.device.id(), promises.then_some(self.begun.id));
    }

    /// Returns the nesting for work outside of attempts while the turn is kept: it holds the turn without a
    /// promise.
    pub(crate) fn around(&self) -> Nesting {
        let mut nesting = Nesting::now();
        self.enclose(&mut nesting.enclosing, false);
        nesting
    }

    /// Number of other turns that run now.
    pub(super) fn others(&self) -> usize {
        self.device.queue.state.lock_own().others(self.begun.seen)
    }
}

impl Drop for Turn {
    #[inline]
    fn drop(&mut self) {
        let queue: &Queue = &self.device.queue;
        let mut state = queue.state.lock();
        state.end(self.begun.id);
        if queue.is_unusual.load(Relaxed) {
            queue.publish(&state);
        }
        let waits = state.has_waiting();
        drop(state);
        if waits {
            queue.look(None);
        }
    }
}

/// A running measurement of the memory that an attempt takes of its device; ends when dropped.
#[must_use = "the measurement ends when this is dropped"]
#[derive(Debug)]
pub(crate) struct Measurement {
    device: Device,
    key: SleeperId,
}

impl Drop for Measurement {
    fn drop(&mut self) {
        self.device.queue.state.lock().measured(self.key);
    }
}
