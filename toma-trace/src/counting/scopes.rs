//! Phases and attempts: scopes of a thread that are no functions.

use std::marker::PhantomData;

use super::here::{here, unless_paused};
use super::packed::Packed;

/// A named part of a step. It is a row of its own if the thread is in no line.
#[derive(Debug)]
#[must_use = "the phase ends when it is dropped"]
pub struct Phase {
    is_optimizer: bool,
    row: Option<IsRow>,
    of_thread: PhantomData<*const ()>,
}

/// True if a phase or an attempt is a row of its own.
type IsRow = bool;

/// Begins a phase, such as `optimizer Adam`. Blocks born in an optimizer that outlive it are its state.
pub fn phase(text: &str) -> Phase {
    let is_optimizer = text.split(' ').next() == Some("optimizer");
    let row = unless_paused(|here| {
        here.optimizers += u32::from(is_optimizer);
        here.record_named(Packed::Phase, text);
        here.enter_row("phases", text, false)
    });
    Phase { is_optimizer, row, of_thread: PhantomData }
}

impl Drop for Phase {
    fn drop(&mut self) {
        let Self { is_optimizer, row: Some(is_row), .. } = *self else { return };
        here(|here| {
            here.optimizers = here.optimizers.saturating_sub(u32::from(is_optimizer));
            here.leave_row(is_row);
            here.record(Packed::Ends);
        });
    }
}

/// Guard of an attempt of a loop that this thread runs. The attempt is a row of its own if the thread is in no line.
#[derive(Debug)]
#[must_use = "the thread stops to run the attempt when it is dropped"]
pub struct Attempt {
    row: Option<IsRow>,
    of_thread: PhantomData<*const ()>,
}

impl Attempt {
    /// Begins an attempt at a size, in a call of this name, on this thread. `resumes` is true if the attempt has
    /// waited.
    pub fn enter(call: &str, size: usize, resumes: bool) -> Self {
        let row = unless_paused(|here| {
            let mut known = here.shared.known();
            let group = known.group(call, size);
            let title = known.title(group);
            drop(known);
            here.note_outermost_attempt(!resumes);
            here.groups.push(group);
            if !resumes {
                here.end_failure();
                here.begin_line();
                here.attempt_began = here.moment();
            }
            here.record_named(Packed::Attempt, &title);
            here.enter_row("attempts", &title, resumes)
        });
        Self { row, of_thread: PhantomData }
    }

    /// Records that an attempt succeeded, or failed with the message `how`.
    pub fn ended(call: &str, size: usize, how: Option<&str>) {
        unless_paused(|here| {
            if how.is_none() {
                here.end_failure();
            }
            let at = here.failed.as_ref().and_then(|failed| failed.0);
            let mut known = here.shared.known();
            let group = known.group(call, size);
            match how {
                None => known.succeeded(group),
                Some(how) => known.failed(group, how, at),
            }
        });
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let Some(is_row) = self.row else { return };
        here(|here| {
            here.groups.pop();
            here.note_outermost_attempt(false);
            here.leave_row(is_row);
            here.record(Packed::Ends);
        });
    }
}
