//! What stands in a marked function: marks, and guards for frames and blocks.

use super::function::Function;
use super::session::{self, Marks, OFF};

/// A statement begins.
#[inline]
pub fn line(function: &'static Function, line: u32) {
    let session = session::session();
    if session != OFF {
        hit(session, function, line);
    }
}

#[cold]
fn hit(session: u32, function: &'static Function, line: u32) {
    if let Some(marks) = session::heard(session) {
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
        let session = session::session();
        if session != OFF { Self::entered(session, function, line) } else { Self { session } }
    }

    #[cold]
    fn entered(session: u32, function: &'static Function, line: u32) -> Self {
        let marks = session::heard(session);
        marks.inspect(|marks| marks.enter(function, line));
        Self { session: if marks.is_some() { session } else { OFF } }
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
    let is_over = session::session() != session;
    if is_over { None } else { session::heard(session).map(Marks::leave) }
}

/// A block within the statement at the line `ENCLOSING`, until it is left.
///
/// The line is part of the type, so that the guard takes no room in a task.
#[derive(Debug)]
pub struct Block<const ENCLOSING: u32>;

impl<const ENCLOSING: u32> Drop for Block<ENCLOSING> {
    #[inline]
    fn drop(&mut self) {
        let session = session::session();
        if session != OFF {
            left_block(session, ENCLOSING);
        }
    }
}

#[cold]
fn left_block(session: u32, enclosing: u32) {
    if let Some(marks) = session::heard(session) {
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
