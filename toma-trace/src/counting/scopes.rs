//! Phases and attempts: what a thread is in that is no function.

use std::marker::PhantomData;

use super::here::{here, unless_paused};
use super::known::title;
use super::told::Told;

/// A part of a step that has a name. Where the thread is in no line it is a row.
#[derive(Debug)]
#[must_use = "the phase ends when it is dropped"]
pub struct Phase {
    is_optimizer: bool,
    row: Option<IsRow>,
    of_thread: PhantomData<*const ()>,
}

/// Whether what has begun is a row of its own.
type IsRow = bool;

/// Begins a phase, such as `optimizer Adam`: what is born in an optimizer and outlives it is its state.
pub fn phase(text: &str) -> Phase {
    let is_optimizer = text.split(' ').next() == Some("optimizer");
    let row = unless_paused(|here| {
        here.optimizers += u32::from(is_optimizer);
        here.tell_named(Told::Phase, text);
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
            here.tell(Told::Ends);
        });
    }
}

/// While one of these lives, the thread runs an attempt of a loop. Where it is in no line, that is a row.
#[derive(Debug)]
#[must_use = "the thread stops to run the attempt when it is dropped"]
pub struct Attempt {
    row: Option<IsRow>,
    of_thread: PhantomData<*const ()>,
}

impl Attempt {
    /// An attempt at a size, in a call of this name, runs on this thread from now on: `resumes` if it has waited.
    pub fn enter(call: &str, size: usize, resumes: bool) -> Self {
        let row = unless_paused(|here| {
            let group = here.shared.known().group(call, size);
            here.attempts(!resumes);
            here.groups.push(group);
            if !resumes {
                here.goes_on();
                here.begins_anew();
                here.attempt_began = here.moment();
            }
            let text = title(call, size);
            here.tell_named(Told::Attempt, &text);
            here.enter_row("attempts", &text, resumes)
        });
        Self { row, of_thread: PhantomData }
    }

    /// An attempt succeeded, or failed in a way.
    pub fn ended(call: &str, size: usize, how: Option<&str>) {
        unless_paused(|here| {
            if how.is_none() {
                here.goes_on();
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
            here.attempts(false);
            here.leave_row(is_row);
            here.tell(Told::Ends);
        });
    }
}
