//! What an attempt is in the middle of: other attempts around it, and the memory its work is done in.

use std::cell::Cell;

use crate::share::Node;

thread_local! {
    // Apart from what every attempt changes, because hardly one changes this. No destructor, so it works
    // at thread exit too.
    static SURROUNDINGS: Cell<Surroundings> =
        const { Cell::new(Surroundings { falls_back: false, polled: false, blocked: false, node: None }) };
}

/// Where the work of a thread is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    /// In another memory than the device's.
    pub(crate) falls_back: bool,
    /// A task with an attempt on a device is being polled: what blocks now may hold up others.
    pub(crate) polled: bool,
    /// In such a poll a loop blocks: not even a task may wait in there, because nobody polls others meanwhile.
    pub(crate) blocked: bool,
    /// Inside this attempt, the innermost that has a seat.
    pub(crate) node: Option<Node>,
}

impl Surroundings {
    /// Those of this thread.
    #[inline]
    pub(crate) fn now() -> Self {
        SURROUNDINGS.get()
    }

    /// Those of an attempt of a task, made of what they would be for a loop that blocks.
    pub(crate) fn of_task(self) -> Self {
        Self { polled: true, blocked: Self::now().blocked, ..self }
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
