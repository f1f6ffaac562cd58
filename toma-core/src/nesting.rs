//! What an attempt is in the middle of: other attempts around it, and the memory its work is done in.

use std::cell::Cell;

use crate::share::Node;

thread_local! {
    // Apart from what every attempt changes, because hardly one changes this. No destructor, so it works
    // at thread exit too.
    static SURROUNDINGS: Cell<Surroundings> =
        const { Cell::new(Surroundings { marks: Marks(0), node: None, anew: None }) };
}

/// Where the work of a thread is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    pub(crate) marks: Marks,
    /// Inside this attempt, the innermost that has a seat.
    pub(crate) node: Option<Node>,
    /// The innermost of those around that is made anew, alone, if it fails among others.
    pub(crate) anew: Option<Node>,
}

/// What is special about it. In one byte, because every call asks whether anything is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks(u8);

const FALLS_BACK: u8 = 1;
const POLLED: u8 = 1 << 1;
const BLOCKED: u8 = 1 << 2;

impl Marks {
    /// Whether there are any.
    #[inline]
    pub(crate) fn anything(self) -> bool {
        self.0 != 0
    }

    /// In another memory than the device's.
    #[inline]
    pub(crate) fn falls_back(self) -> bool {
        self.0 & FALLS_BACK != 0
    }

    /// A task with an attempt on a device is being polled: what blocks now may hold up others.
    #[inline]
    pub(crate) fn polled(self) -> bool {
        self.0 & POLLED != 0
    }

    /// In such a poll a loop blocks: not even a task may wait in there, because nobody polls others meanwhile.
    #[inline]
    pub(crate) fn blocked(self) -> bool {
        self.0 & BLOCKED != 0
    }

    pub(crate) fn falling_back(self, falls_back: bool) -> Self {
        self.with(FALLS_BACK, self.falls_back() || falls_back)
    }

    fn with(self, mark: u8, on: bool) -> Self {
        Self(if on { self.0 | mark } else { self.0 & !mark })
    }
}

impl Surroundings {
    /// Those of this thread.
    #[inline]
    pub(crate) fn now() -> Self {
        SURROUNDINGS.get()
    }

    /// Those of an attempt of a loop that blocks.
    pub(crate) fn of_loop(self) -> Self {
        Self { marks: self.marks.with(BLOCKED, self.marks.polled()), ..self }
    }

    /// Those of an attempt of a task, made of what they would be for a loop that blocks.
    pub(crate) fn of_task(self) -> Self {
        let marks = self.marks.with(POLLED, true).with(BLOCKED, Self::now().marks.blocked());
        Self { marks, ..self }
    }
}

/// While it lives, what this thread runs has these surroundings, if any are given.
#[must_use = "what runs after it is dropped is outside again"]
pub(crate) struct Inside {
    before: Option<Surroundings>,
}

impl Inside {
    #[inline]
    pub(crate) fn of(surroundings: Option<Surroundings>) -> Self {
        Self { before: surroundings.map(|surroundings| SURROUNDINGS.replace(surroundings)) }
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        if let Some(before) = self.before {
            SURROUNDINGS.set(before);
        }
    }
}
