//! Nesting of the current thread or task: enclosing attempts with turns on devices, and marks such as fallback.
//!
//! A leaf module: it knows devices and turns by their numbers only.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Number of nested devices that are distinguished. A deeper one counts as another device, which never waits.
const DEPTH: usize = 4;

thread_local! {
    // Apart from the state that every attempt changes, because hardly one changes this. No destructor, so it works at
    // thread exit too.
    static NESTING: Cell<Nesting> = const { Cell::new(Nesting::NONE) };
}

/// Identifies the queue of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DeviceId(NonZeroU32);

impl DeviceId {
    pub(crate) fn new() -> Self {
        static IDS: AtomicU32 = AtomicU32::new(1);
        Self(NonZeroU32::new(IDS.fetch_add(1, Relaxed)).expect("fewer devices than numbers"))
    }
}

/// Identifies a turn on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TurnId {
    /// The process in which it began: a child of `fork` has none of its parent's turns.
    pub(crate) process: u32,
    /// The turns that had begun on the device, this one included.
    pub(crate) number: u64,
}

/// Nesting of a thread's work.
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

/// Marks of the code inside a nesting.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact by itself")]
pub(crate) struct Marks {
    /// True in fallback.
    pub(crate) falls_back: bool,
    /// True while a task with an attempt is polled: code that blocks now may hold up other tasks.
    pub(crate) polled: bool,
    /// True while a loop blocks in such a poll: not even a task may wait inside it, because no other task is polled
    /// meanwhile.
    pub(crate) blocked: bool,
    /// True in an attempt of a call on whose outcome ranks agree.
    pub(crate) agrees: bool,
}

impl Nesting {
    const NONE: Self = Self {
        marks: Marks { falls_back: false, polled: false, blocked: false, agrees: false },
        enclosing: Enclosing { devices: [None; DEPTH], promised: None },
    };

    /// Nesting of this thread.
    #[inline]
    pub(crate) fn now() -> Self {
        NESTING.get()
    }

    /// Converts the nesting of an attempt in a blocking loop to that of an attempt in a task.
    pub(crate) fn of_task(self) -> Self {
        let marks = Marks { polled: true, blocked: Self::now().marks.blocked, ..self.marks };
        Self { marks, ..self }
    }

    /// Nesting of code that runs while an entry of this thread waits in a queue: nothing in it waits, because it
    /// would wait behind the entry.
    pub(crate) fn of_queued(self) -> Self {
        let marks = Marks { polled: true, blocked: true, ..self.marks };
        Self { marks, ..self }
    }
}

impl Enclosing {
    /// True if an enclosing attempt holds a turn on any device.
    #[inline]
    pub(crate) fn holds_any(self) -> bool {
        self.devices[0].is_some()
    }

    /// True if an enclosing attempt holds a turn on this device.
    #[inline]
    pub(crate) fn holds(self, device: DeviceId) -> bool {
        self.devices.contains(&Some(device))
    }

    /// The outermost turn, if it is on this device and its attempt will be redone after contention.
    pub(crate) fn promised_on(self, device: DeviceId) -> Option<TurnId> {
        self.promised.filter(|_| self.devices[0] == Some(device))
    }

    /// Enters an attempt that holds a turn on `device`.
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
    /// True if any mark except `agrees` is set.
    #[inline]
    pub(crate) fn anything(self) -> bool {
        self.falls_back | self.polled | self.blocked
    }

    /// Marks of an attempt in a blocking loop.
    #[inline]
    pub(crate) fn of_loop(self, falls_back: bool) -> Self {
        Self { falls_back: self.falls_back | falls_back, blocked: self.polled, ..self }
    }
}

/// Guard that sets the nesting of this thread, if one is given, until it is dropped.
#[must_use = "what runs after it is dropped is outside again"]
pub(crate) struct Inside {
    before: Option<Nesting>,
}

impl Inside {
    #[inline]
    pub(crate) fn of(nesting: Option<&Nesting>) -> Self {
        match nesting {
            None => Self { before: None },
            Some(nesting) => Self::enter(nesting),
        }
    }

    // If this is inlined, the bytes of a nesting are copied at each attempt, although nearly none has one.
    #[inline(never)]
    fn enter(nesting: &Nesting) -> Self {
        Self { before: Some(NESTING.replace(*nesting)) }
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
