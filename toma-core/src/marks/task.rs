//! Tasks: a frame that is entered by each poll.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::frame::leave;
use super::function::Function;
use super::session::{self, OFF};

pin_project! {
    /// A future within a marked function.
    ///
    /// Its frame is entered by each poll, and left when the future waits: in between, the task is in no line. Values
    /// that the future holds when it is dropped are dropped within the frame, because fields are dropped in their
    /// order.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Profiled<F> {
        entering: Entering,
        #[pin]
        future: F,
        leaving: Leaving,
    }
}

/// Wraps a body of a function, or an async block in it, that begins at a line.
#[inline]
pub fn profiled<F: Future>(function: &'static Function, line: u32, future: F) -> Profiled<F> {
    let entering = Entering { function, line, session: OFF, has_ended: false };
    Profiled { entering, future, leaving: Leaving { has_ended: false } }
}

impl<F: Future> Future for Profiled<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let polled = if session::is_received() {
            let _frame = this.entering.frame();
            this.future.poll(context)
        } else {
            this.future.poll(context)
        };
        // A future that is ready holds nothing any more.
        let has_ended = polled.is_ready();
        (this.entering.has_ended, this.leaving.has_ended) = (has_ended, has_ended);
        polled
    }
}

/// The line of a task that waits. Enters the frame in which the future's values are dropped.
#[derive(Debug)]
struct Entering {
    function: &'static Function,
    /// The line at which the task began; with a session, the line at which it waits.
    line: u32,
    /// The session that was notified of the task's frame, or [`OFF`].
    session: u32,
    has_ended: bool,
}

impl Entering {
    #[cold]
    fn frame(&mut self) -> Option<Polled<'_>> {
        let (session, marks) = session::receiver()?;
        if self.session == session {
            marks.resume(self.function, self.line);
        } else {
            marks.enter(self.function, self.line);
        }
        self.session = session;
        Some(Polled(self))
    }
}

/// One poll.
struct Polled<'a>(&'a mut Entering);

impl Drop for Polled<'_> {
    fn drop(&mut self) {
        if let Some(line) = leave(self.0.session) {
            self.0.line = line;
        }
    }
}

impl Drop for Entering {
    #[inline]
    fn drop(&mut self) {
        if session::is_received() && !self.has_ended {
            resume(self);
        }
    }
}

#[cold]
fn resume(task: &Entering) {
    if let Some((_, marks)) = session::receiver() {
        marks.resume(task.function, task.line);
    }
}

/// Leaves the frame that [`Entering`] has entered.
#[derive(Debug)]
struct Leaving {
    has_ended: bool,
}

impl Drop for Leaving {
    #[inline]
    fn drop(&mut self) {
        if session::is_received() && !self.has_ended {
            left();
        }
    }
}

#[cold]
fn left() {
    if let Some((_, marks)) = session::receiver() {
        marks.leave();
    }
}
