//! What the current thread or task is inside of: attempts that hold turns on devices, and the memory that
//! the work is done in.
//!
//! A leaf: it knows devices and turns by their numbers only.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Devices that are told apart. Deeper nesting counts as a turn on another device, which never waits.
const DEPTH: usize = 4;

thread_local! {
    // Apart from what every attempt changes, because hardly one changes this. No destructor, so it works
    // at thread exit too.
    static NESTING: Cell<Nesting> = const { Cell::new(Nesting::NONE) };
}

/// Tells the queue of a device from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DeviceId(NonZeroU32);

impl DeviceId {
    pub(crate) fn new() -> Self {
        static IDS: AtomicU32 = AtomicU32::new(1);
        Self(NonZeroU32::new(IDS.fetch_add(1, Relaxed)).expect("fewer devices than numbers"))
    }
}

/// Tells a turn from all others of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TurnId {
    /// The process in which it began: a child of `fork` has none of its parent's turns.
    pub(crate) process: u32,
    /// The turns that had begun on the device, this one included.
    pub(crate) number: u64,
}

/// Where the work of a thread is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nesting {
    pub(crate) marks: Marks,
    pub(crate) enclosing: Enclosing,
}

/// The turns of the enclosing attempts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Enclosing {
    /// The outermost first.
    devices: [Option<DeviceId>; DEPTH],
    /// The turn on the first device, if its attempt will be redone exclusively after contention.
    promised: Option<TurnId>,
}

/// What is special about the place.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact by itself")]
pub(crate) struct Marks {
    /// In fallback.
    pub(crate) falls_back: bool,
    /// A task with an attempt is being polled: what blocks now may hold up others.
    pub(crate) polled: bool,
    /// In such a poll a loop blocks: not even a task may wait in there, because no other task is polled
    /// meanwhile.
    pub(crate) blocked: bool,
    /// In an attempt of a call on whose outcome ranks agree.
    pub(crate) agrees: bool,
}

impl Nesting {
    const NONE: Self = Self {
        marks: Marks { falls_back: false, polled: false, blocked: false, agrees: false },
        enclosing: Enclosing { devices: [None; DEPTH], promised: None },
    };

    /// That of this thread.
    #[inline]
    pub(crate) fn now() -> Self {
        NESTING.get()
    }

    /// That of an attempt of a task, made of what it would be for a loop that blocks.
    pub(crate) fn of_task(self) -> Self {
        let marks = Marks { polled: true, blocked: Self::now().marks.blocked, ..self.marks };
        Self { marks, ..self }
    }

    /// That of what runs while an entry of this thread waits in a queue: nothing in there waits, because it would
    /// wait behind the entry.
    pub(crate) fn of_queued(self) -> Self {
        let marks = Marks { polled: true, blocked: true, ..self.marks };
        Self { marks, ..self }
    }
}

impl Enclosing {
    /// Whether an enclosing attempt holds a turn on any device.
    #[inline]
    pub(crate) fn holds_any(self) -> bool {
        self.devices[0].is_some()
    }

    /// Whether an enclosing attempt holds a turn on this device.
    #[inline]
    pub(crate) fn holds(self, device: DeviceId) -> bool {
        self.devices.contains(&Some(device))
    }

    /// The outermost turn, if it is on this device and its attempt will be redone after contention.
    pub(crate) fn promised_on(self, device: DeviceId) -> Option<TurnId> {
        self.promised.filter(|_| self.devices[0] == Some(device))
    }

    /// Goes inside an attempt that holds a turn on `device`.
    ///
    /// `promised`: the attempt will be redone exclusively after contention. Only the outermost one may
    /// promise that, because the others never wait.
    #[inline]
    pub(crate) fn enter(&mut self, device: DeviceId, promised: Option<TurnId>) {
        if !self.holds_any() {
            (self.devices[0], self.promised) = (Some(device), promised);
        } else if let Some(free) = self.devices.iter_mut().find(|device| device.is_none()) {
            *free = Some(device);
        }
    }
}

impl Marks {
    /// Whether there are any.
    #[inline]
    pub(crate) fn anything(self) -> bool {
        self.falls_back | self.polled | self.blocked
    }

    /// Those of an attempt of a loop that blocks.
    #[inline]
    pub(crate) fn of_loop(self, falls_back: bool) -> Self {
        Self { falls_back: self.falls_back | falls_back, blocked: self.polled, ..self }
    }
}

/// While it lives, what this thread runs is nested so, if a nesting is given.
#[must_use = "what runs after it is dropped is outside again"]
pub(crate) struct Inside {
    before: Option<Nesting>,
}

impl Inside {
    #[inline]
    pub(crate) fn of(nesting: Option<Nesting>) -> Self {
        Self { before: nesting.map(|nesting| NESTING.replace(nesting)) }
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        if let Some(before) = self.before {
            NESTING.set(before);
        }
    }
}
