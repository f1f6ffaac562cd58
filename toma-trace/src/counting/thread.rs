//! What one thread tells a recording.

use std::cell::{Cell, RefCell};
use std::io::{self, Write as _};
use std::ptr;
use std::sync::Arc;

use super::Shared;
use crate::lines::{Born, DeviceId, LineId, Stack};
use crate::marks::{Function, Marks};

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
    static PAUSES: Cell<u32> = const { Cell::new(0) };
}

/// A thread in a recording.
struct Here {
    shared: Arc<Shared>,
    stack: Stack,
    frames: Vec<Called>,
}

/// A frame.
#[derive(Clone, Copy)]
struct Called {
    function: &'static Function,
    first: LineId,
    /// Not a closure, and not a task that goes on.
    is_call: bool,
}

/// Runs `act` with what this thread has told so far. `None` where no recording runs, and while the thread ends.
fn here<R>(act: impl FnOnce(&mut Here) -> R) -> Option<R> {
    let number = super::number()?;
    let known = |here: &RefCell<Option<Here>>| {
        // Within an allocation of ours nothing is told.
        let mut here = here.try_borrow_mut().ok()?;
        if here.as_ref().is_none_or(|here| here.shared.number != number) {
            let shared = super::running()?;
            let stack = Stack::new(&shared.rows);
            *here = Some(Here { shared, stack, frames: Vec::new() });
        }
        here.as_mut().map(act)
    };
    HERE.try_with(known).ok().flatten()
}

/// Ends what this thread has told.
pub(super) fn forget() {
    let _ = HERE.try_with(RefCell::take);
}

/// While one of these lives, marks of this thread are not heard: what runs is a rehearsal, as a dry run.
#[derive(Debug)]
#[must_use = "marks are heard again once it is dropped"]
pub struct Pause(());

/// Lets no mark of this thread be heard until the answer is dropped.
pub fn pause() -> Pause {
    PAUSES.set(PAUSES.get() + 1);
    Pause(())
}

impl Drop for Pause {
    fn drop(&mut self) {
        PAUSES.set(PAUSES.get() - 1);
    }
}

/// A block was allocated on the device of that place among those of [`start`](super::Counting::start). The answer
/// belongs to the block, and is 0 where no recording runs.
pub fn allocated(device: u32, bytes: u64) -> u64 {
    let told = here(|here| {
        let born = here.stack.allocated(DeviceId(device), bytes);
        Owner::new(here, born)
    });
    told.map_or(0, |owner| owner.0)
}

/// A block was given back, with what [`allocated`] has answered for it; 0 where it was never asked.
pub fn freed(device: u32, bytes: u64, owner: u64) {
    here(|here| match Owner(owner).born(here) {
        Some(born) => here.stack.freed(DeviceId(device), bytes, born),
        None => here.stack.freed_older(DeviceId(device), bytes),
    });
}

/// There was no memory for a block.
pub fn out_of_memory(device: u32) {
    here(|here| here.stack.out_of_memory(DeviceId(device)));
}

/// Whose a block is: the number of the recording, and the line plus 1.
#[derive(Clone, Copy)]
struct Owner(u64);

impl Owner {
    fn new(here: &Here, born: Born) -> Self {
        let line = born.line().map_or(0, |line| u64::from(line.0) + 1);
        Self(u64::from(here.shared.number) << 32 | line)
    }

    fn born(self, here: &Here) -> Option<Born> {
        let (number, line) = (self.0 >> 32, self.0 & u64::from(u32::MAX));
        let line = u32::try_from(line).ok()?.checked_sub(1).map(LineId);
        (number == u64::from(here.shared.number)).then_some(Born(line))
    }
}

/// Hears the marks of all threads.
#[derive(Debug)]
pub(super) struct Ears;

impl Here {
    fn enter(&mut self, function: &'static Function, line: u32, is_call: bool) {
        let first = self.first(function);
        self.frames.push(Called { function, first, is_call });
        self.stack.enter(first.nth(line));
    }

    /// The first line of a function; that of the innermost frame is known.
    fn first(&self, function: &'static Function) -> LineId {
        match self.frames.last() {
            Some(frame) if ptr::eq(frame.function, function) => frame.first,
            _ => self.shared.first(function),
        }
    }

    fn leave(&mut self) -> (u32, Option<String>) {
        let Some(frame) = self.frames.pop() else { return (0, None) };
        let line = self.stack.line().map_or(0, |line| line.0.saturating_sub(frame.first.0));
        self.stack.leave();
        let due = if frame.is_call { self.shared.called(frame.first, frame.function) } else { None };
        (line, due.map(|lines| lines.to_string()))
    }
}

fn unless_paused<R>(act: impl FnOnce(&mut Here) -> R) -> Option<R> {
    if PAUSES.get() > 0 { None } else { here(act) }
}

impl Marks for Ears {
    fn enter(&self, function: &'static Function, line: u32) {
        unless_paused(|here| here.enter(function, line, line == 0));
    }

    fn resume(&self, function: &'static Function, line: u32) {
        unless_paused(|here| here.enter(function, line, false));
    }

    fn line(&self, function: &'static Function, line: u32) {
        unless_paused(|here| here.stack.mark(here.first(function).nth(line)));
    }

    fn left_block(&self, enclosing: u32) {
        unless_paused(|here| {
            if let Some(frame) = here.frames.last() {
                here.stack.left_block(frame.first.nth(enclosing));
            }
        });
    }

    fn leave(&self) -> u32 {
        let (line, table) = unless_paused(Here::leave).unwrap_or_default();
        if let Some(table) = table {
            // A standard error that is closed must not end the program.
            let _ = io::stderr().lock().write_all(table.as_bytes());
        }
        line
    }
}
