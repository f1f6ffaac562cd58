//! What stands in a marked function: marks, and guards for frames and blocks.

use super::function::Function;
use super::session::{self, OFF};

/// A statement begins.
#[inline]
pub fn line(function: &'static Function, line: u32) {
    if session::are_heard() {
        hit(function, line);
    }
}

#[cold]
fn hit(function: &'static Function, line: u32) {
    if let Some((_, marks)) = session::heard() {
        marks.line(function, line);
    }
}

/// A call of a function or of one of its closures, from where it stands to the end of the body.
///
/// It is the first value of its body, so it is dropped last.
#[derive(Debug)]
pub struct Frame {
    /// The session that has been told of it, or [`OFF`].
    session: u32,
}

impl Frame {
    /// A function or a closure begins at a line.
    #[inline]
    #[must_use = "the frame ends when it is dropped"]
    pub fn enter(function: &'static Function, line: u32) -> Self {
        if session::are_heard() { Self::entered(function, line) } else { Self { session: OFF } }
    }

    #[cold]
    fn entered(function: &'static Function, line: u32) -> Self {
        let Some((session, marks)) = session::heard() else { return Self { session: OFF } };
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

/// The line in force in the frame that ends, if its session lasts.
#[cold]
pub(super) fn leave(session: u32) -> Option<u32> {
    let (now, marks) = session::heard()?;
    (now == session).then(|| marks.leave())
}

/// A block within the statement at the line `ENCLOSING`, until it is left.
///
/// The line is part of the type, so that the guard takes no room in a task.
#[derive(Debug)]
pub struct Block<const ENCLOSING: u32>;

impl<const ENCLOSING: u32> Drop for Block<ENCLOSING> {
    #[inline]
    fn drop(&mut self) {
        if session::are_heard() {
            left_block(ENCLOSING);
        }
    }
}

#[cold]
fn left_block(enclosing: u32) {
    if let Some((_, marks)) = session::heard() {
        marks.left_block(enclosing);
    }
}

/// A value for a `return` that is compiled and never runs, which tells an async block what it returns.
///
/// # Panics
///
/// Always.
#[must_use]
pub fn never<T>() -> T {
    unreachable!("stands behind `if false`")
}
