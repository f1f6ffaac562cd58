//! The contents of a marked function: marks, and guards for frames and blocks.

use super::function::Function;
use super::session::{self, OFF};

/// Marks the beginning of a statement.
#[inline]
pub fn line(function: &'static Function, line: u32) {
    if session::is_received() {
        hit(function, line);
    }
}

#[cold]
fn hit(function: &'static Function, line: u32) {
    if let Some((_, marks)) = session::receiver() {
        marks.line(function, line);
    }
}

/// A call of a function or of one of its closures, from its first statement to the end of the body.
///
/// It is the first value of its body, so it is dropped last.
#[derive(Debug)]
pub struct Frame {
    /// The session that was notified of the frame, or [`OFF`].
    session: u32,
}

impl Frame {
    /// Begins the frame of a function or a closure at a line.
    #[inline]
    #[must_use = "the frame ends when it is dropped"]
    pub fn enter(function: &'static Function, line: u32) -> Self {
        if session::is_received() { Self::entered(function, line) } else { Self { session: OFF } }
    }

    #[cold]
    fn entered(function: &'static Function, line: u32) -> Self {
        let Some((session, marks)) = session::receiver() else { return Self { session: OFF } };
        marks.enter(function, line);
        Self { session }
    }
}

impl Drop for Frame {
    #[inline]
    fn drop(&mut self) {
        if self.session != OFF {
            leave(self.session);
        }
    }
}

/// Ends a frame; returns the line that was current in it, if its session still lasts.
#[cold]
pub(super) fn leave(session: u32) -> Option<u32> {
    let (now, marks) = session::receiver()?;
    (now == session).then(|| marks.leave())
}

/// A block within the statement at the line `ENCLOSING`, until the block is left.
///
/// The line is part of the type, so that the guard takes no room in a task.
#[derive(Debug)]
pub struct Block<const ENCLOSING: u32>;

impl<const ENCLOSING: u32> Drop for Block<ENCLOSING> {
    #[inline]
    fn drop(&mut self) {
        if session::is_received() {
            left_block(ENCLOSING);
        }
    }
}

#[cold]
fn left_block(enclosing: u32) {
    if let Some((_, marks)) = session::receiver() {
        marks.left_block(enclosing);
    }
}

/// A value for a `return` that is compiled and never runs, from which an async block infers its return type.
///
/// # Panics
///
/// Always.
#[must_use]
pub fn never<T>() -> T {
    unreachable!("stands behind `if false`")
}
