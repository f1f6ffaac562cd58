//! Telling the witness, from the side of the engine.
//!
//! # Why
//!
//! An attempt is left before its failure is looked at, and entered again for its values to be dropped. What
//! the witness answers is no part of the attempt; what the drop frees is. How the attempt ended is told
//! last.
//!
//! A witness that panics listens no more, in any call. It belongs to a library, and would panic again in
//! the next attempt.

use std::cell::Cell;
use std::ops::Range;

use super::{Attempted, Ended, REGISTERED, Witness, listen};
use crate::classify::Class;
use crate::contained::contained;
use crate::observe::telling::telling;
use crate::shield;
use crate::switches::Switches;
use crate::text;

thread_local! {
    /// The witness is being told. Of what it does meanwhile it is told nothing: that would never end.
    static TELLING: Cell<bool> = const { Cell::new(false) };
}

/// The attempts of one call, as the witness is told of them, one after the other.
pub(crate) struct Witnessed {
    call: u64,
    name: String,
    /// The one that has begun and not ended, if it is told of.
    attempt: Option<Unfinished>,
}

struct Unfinished {
    number: usize,
    piece: Range<usize>,
    size: usize,
    resumes: bool,
    /// Of one that this thread runs without interruption.
    entered: Option<Entered>,
    ended: Ended,
}

/// While it lives, this thread runs the attempt.
#[must_use = "the attempt is left when it is dropped"]
pub(crate) struct Entered(());

impl Witnessed {
    /// `None` where the witness is told of nothing.
    pub(crate) fn new(call: u64, name: &str) -> Option<Self> {
        listens().then(|| Self { call, name: name.to_owned(), attempt: None })
    }

    /// The call's `number`th attempt begins, at these items; `at_once`: this thread runs it until it is
    /// [left](Self::leave).
    pub(crate) fn begins(&mut self, number: usize, piece: Range<usize>, size: usize, at_once: bool) {
        self.end();
        let (resumes, entered, ended) = (false, None, Ended::Abandoned);
        self.attempt = listens().then_some(Unfinished { number, piece, size, resumes, entered, ended });
        let entered = if at_once { self.enter() } else { None };
        if let Some(attempt) = &mut self.attempt {
            attempt.entered = entered;
        }
    }

    /// This thread works for the attempt, until the guard is dropped.
    pub(crate) fn enter(&mut self) -> Option<Entered> {
        let attempted = self.attempted()?;
        let told = tell(|witness| witness.enter(&attempted));
        self.attempt.as_mut()?.resumes = true;
        told.map(Entered)
    }

    pub(crate) fn leave(&mut self) {
        if let Some(attempt) = &mut self.attempt {
            attempt.entered = None;
        }
    }

    pub(crate) fn failed(&mut self, class: Class) {
        self.ends_so(Ended::Failed(class));
    }

    pub(crate) fn succeeded(&mut self) {
        self.ends_so(Ended::Succeeded);
        self.end();
    }

    fn ends_so(&mut self, ended: Ended) {
        if let Some(attempt) = &mut self.attempt {
            attempt.ended = ended;
        }
    }

    /// Nothing of the attempt is left, or what is left is the caller's: tells how it ended.
    pub(crate) fn end(&mut self) {
        self.leave();
        if let (Some(attempted), Some(attempt)) = (self.attempted(), &self.attempt) {
            tell(|witness| witness.ended(&attempted, attempt.ended));
        }
        self.attempt = None;
    }

    fn attempted(&self) -> Option<Attempted<'_>> {
        let Self { call, name, attempt } = self;
        let Unfinished { number, piece: Range { start, end }, size, resumes, .. } = *attempt.as_ref()?;
        Some(Attempted { call: *call, name, number, start, end, size, resumes })
    }
}

/// On whatever way.
impl Drop for Witnessed {
    fn drop(&mut self) {
        self.end();
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        tell(Witness::leave);
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
    let answer = telling(|| contained(|| what(*witness)));
    TELLING.set(false);
    if answer.is_none() {
        listen(false);
        text::print("toma: the witness panicked and is told of no attempt that begins from now on");
    }
    answer
}
