//! Notifies the witness on behalf of the engine.
//!
//! # Why
//!
//! An attempt is left before its failure is handled, and entered again while its values are dropped. The witness's
//! answer is no part of the attempt, but the memory that the drop frees is. The outcome of the attempt is reported
//! last.
//!
//! A witness that panics is switched off for all calls. It belongs to a library, and would panic again in the next
//! attempt.

use std::cell::Cell;
use std::ops::Range;

use super::{Attempted, Ended, REGISTERED, Witness, listen};
use crate::classify::Class;
use crate::contained::contained;
use crate::observe::notifying::notifying;
use crate::shield;
use crate::switches::Switches;
use crate::text;

thread_local! {
    /// True while the witness is notified. Its own loops are not reported to it, because that would never end.
    static NOTIFYING: Cell<bool> = const { Cell::new(false) };
}

/// Reports the attempts of one call to the witness, one after the other.
pub(crate) struct Witnessed {
    call: u64,
    name: String,
    /// The attempt that has begun and not ended, if the witness is notified of it.
    attempt: Option<Unfinished>,
}

struct Unfinished {
    number: usize,
    piece: Range<usize>,
    size: usize,
    resumes: bool,
    /// Set if this thread runs the attempt without interruption.
    entered: Option<Entered>,
    ended: Ended,
}

/// This thread runs the attempt until the guard is dropped.
#[must_use = "the attempt is left when it is dropped"]
pub(crate) struct Entered(());

impl Witnessed {
    /// Returns `None` if the witness is not to be notified.
    pub(crate) fn new(call: u64, name: &str) -> Option<Self> {
        listens().then(|| Self { call, name: name.to_owned(), attempt: None })
    }

    /// Begins the call's `number`th attempt, at these items. With `at_once`, this thread runs it until it is
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

    /// Reports that this thread works for the attempt, until the guard is dropped.
    pub(crate) fn enter(&mut self) -> Option<Entered> {
        let attempted = self.attempted()?;
        let notified = notify(|witness| witness.enter(&attempted));
        self.attempt.as_mut()?.resumes = true;
        notified.map(Entered)
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

    /// Ends the attempt and reports its outcome. Nothing of it is left by now, or the rest belongs to the caller.
    pub(crate) fn end(&mut self) {
        self.leave();
        if let (Some(attempted), Some(attempt)) = (self.attempted(), &self.attempt) {
            notify(|witness| witness.ended(&attempted, attempt.ended));
        }
        self.attempt = None;
    }

    fn attempted(&self) -> Option<Attempted<'_>> {
        let Self { call, name, attempt } = self;
        let Unfinished { number, piece: Range { start, end }, size, resumes, .. } = *attempt.as_ref()?;
        Some(Attempted { call: *call, name, number, start, end, size, resumes })
    }
}

/// Ends the last attempt however the call ends.
impl Drop for Witnessed {
    fn drop(&mut self) {
        self.end();
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        notify(Witness::leave);
    }
}

/// Asks the witness for the allocations that filled the memory, after an attempt of this thread ran out of it.
pub(crate) fn filled() -> Option<String> {
    let filled = listens().then(|| notify(Witness::filled))???;
    let lines = filled.trim_end();
    (!lines.is_empty()).then(|| lines.to_owned())
}

/// True if the witness is to be notified of attempts that begin here and now. A dry run is no attempt.
fn listens() -> bool {
    Switches::load().has(Switches::WITNESSED)
        && REGISTERED.get().is_some()
        && !NOTIFYING.get()
        && !shield::is_dry()
}

/// Returns `None` if no witness is registered, it is being notified already, or it panicked.
fn notify<R>(report: impl FnOnce(&'static dyn Witness) -> R) -> Option<R> {
    let witness = REGISTERED.get().filter(|_| !NOTIFYING.replace(true))?;
    let answer = notifying(|| contained(|| report(*witness)));
    NOTIFYING.set(false);
    if answer.is_none() {
        listen(false);
        text::print("toma: the witness panicked and receives no attempt that begins from now on");
    }
    answer
}
