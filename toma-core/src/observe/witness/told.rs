//! Telling the witness, from the side of the engine.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use super::{Attempted, Ended, REGISTERED, Witness, listen};
use crate::classify::Class;
use crate::contained::contained;
use crate::observe::watch;
use crate::shield;
use crate::switches::Switches;
use crate::text;

thread_local! {
    /// The witness is being told. Of what it does meanwhile it is told nothing: that would never end.
    static TELLING: Cell<bool> = const { Cell::new(false) };
}

/// The attempts of one call, one after the other.
pub(crate) struct Witnessed {
    of: Arc<Of>,
    /// The one that runs, if it is told of.
    running: Option<Running>,
}

/// A call, as its events name it.
struct Of {
    call: u64,
    name: String,
}

struct Running {
    told: Told,
    /// Of an attempt that this thread runs without interruption.
    entered: Option<Entered>,
    ended: Ended,
}

/// An attempt that the witness is told of.
#[derive(Clone)]
pub(crate) struct Told {
    of: Arc<Of>,
    number: usize,
    piece: Range<usize>,
    size: usize,
    resumes: bool,
}

/// While it lives, this thread runs the attempt.
#[must_use = "the attempt is left when it is dropped"]
pub(crate) struct Entered {
    was_told: bool,
}

impl Witnessed {
    /// `None` where the witness is told of nothing.
    pub(crate) fn new(call: u64, name: &str) -> Option<Self> {
        listens().then(|| Self { of: Arc::new(Of { call, name: name.to_owned() }), running: None })
    }

    /// The call's `number`th attempt begins, at these items; `at_once`: this thread runs it until it is
    /// [left](Self::leave).
    pub(crate) fn begins(&mut self, number: usize, piece: Range<usize>, size: usize, at_once: bool) {
        // That of before is told to its end first.
        self.running = None;
        self.running = listens().then(|| {
            let mut told = Told { of: Arc::clone(&self.of), number, piece, size, resumes: false };
            let entered = at_once.then(|| told.enter());
            Running { told, entered, ended: Ended::Abandoned }
        });
    }

    pub(crate) fn leave(&mut self) {
        if let Some(running) = &mut self.running {
            running.entered = None;
        }
    }

    /// The same for what belongs to the attempt besides its body.
    pub(crate) fn enter_for(&mut self) -> Option<Entered> {
        Some(self.running.as_mut()?.told.enter())
    }

    /// For what runs poll by poll.
    pub(crate) fn told(&mut self) -> Option<Box<Told>> {
        let told = &mut self.running.as_mut()?.told;
        let polled = Box::new(told.clone());
        told.resumes = true;
        Some(polled)
    }

    pub(crate) fn failed(&mut self, class: Class) {
        if let Some(running) = &mut self.running {
            running.ended = Ended::Failed(class);
        }
    }

    pub(crate) fn succeeded(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.ended = Ended::Succeeded;
        }
    }

    /// Nothing of the attempt is left.
    pub(crate) fn end(&mut self) {
        self.running = None;
    }
}

/// Tells how it ended, on whatever way.
impl Drop for Running {
    fn drop(&mut self) {
        self.entered = None;
        tell(|witness| witness.ended(&self.told.attempted(), self.ended));
    }
}

impl Told {
    pub(crate) fn enter(&mut self) -> Entered {
        let told = tell(|witness| witness.enter(&self.attempted()));
        self.resumes = true;
        Entered { was_told: told.is_some() }
    }

    fn attempted(&self) -> Attempted<'_> {
        let Self { of, number, piece: Range { start, end }, size, resumes } = self;
        let Of { call, name } = &**of;
        Attempted {
            call: *call,
            name,
            number: *number,
            start: *start,
            end: *end,
            size: *size,
            resumes: *resumes,
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.was_told {
            tell(Witness::leave);
        }
    }
}

/// What filled the memory, after an attempt of this thread ran out of it.
pub(crate) fn filled() -> Option<String> {
    let filled = listens().then(|| tell(Witness::filled))???;
    let lines = filled.trim_end();
    (!lines.is_empty()).then(|| lines.to_owned())
}

/// Whether the witness is told of what begins here and now: what happens in a dry run has not happened.
fn listens() -> bool {
    Switches::load().witnessed() && REGISTERED.get().is_some() && !TELLING.get() && !shield::is_dry()
}

/// `None` where the witness did not answer.
fn tell<R>(what: impl FnOnce(&'static dyn Witness) -> R) -> Option<R> {
    let witness = REGISTERED.get().filter(|_| !TELLING.replace(true))?;
    let answer = watch::unobserved(|| contained(|| what(*witness)));
    TELLING.set(false);
    if answer.is_none() {
        listen(false);
        text::print("toma: the witness panicked and is told of no attempt that begins from now on");
    }
    answer
}
