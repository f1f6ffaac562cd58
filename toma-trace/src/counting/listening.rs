//! Receivers of the marks of all threads: the running recording, and recorders of single threads.

use std::cell::RefCell;
use std::io::{self, Write as _};
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::here::{Here, unless_paused};
use crate::event::Mark;
use toma_core::marks::{self, Busy, Function, Marks, Session};

/// Forwards marks to the recording and to the recorders of the thread.
#[derive(Debug)]
struct ToRecordings;

/// Number of uses of the session, and the session while it has any.
static SESSION: Mutex<(usize, Option<Session>)> = Mutex::new((0, None));

fn session() -> MutexGuard<'static, (usize, Option<Session>)> {
    SESSION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A use of the session, which lasts until the last use is dropped.
#[derive(Debug)]
pub(super) struct SessionUse(());

impl SessionUse {
    pub(super) fn begin() -> Result<Self, Busy> {
        let mut session = session();
        if session.1.is_none() {
            session.1 = Some(marks::start(&ToRecordings)?);
        }
        session.0 += 1;
        Ok(Self(()))
    }
}

impl Drop for SessionUse {
    fn drop(&mut self) {
        let mut session = session();
        session.0 -= 1;
        if session.0 == 0 {
            session.1 = None;
        }
    }
}

thread_local! {
    /// Recorders of this thread, the innermost last.
    static RECORDERS: RefCell<Vec<ThreadRecorder>> = const { RefCell::new(Vec::new()) };
}

/// A line by its index in a function; in the innermost function that runs if that is not named.
pub type MarkedLine = (Option<&'static Function>, u32);

/// Receives the marks of a thread. The function of a mark may have begun before.
type Receive = dyn Fn(Mark<MarkedLine>);

#[derive(Clone)]
struct ThreadRecorder {
    receive: Rc<Receive>,
    /// True if recorders that began before it receive nothing meanwhile.
    is_alone: bool,
}

/// Guard of a recorder of one thread, which receives the thread's marks until the guard is dropped.
#[must_use = "nothing is received once it is dropped"]
pub struct Listening {
    receive: Rc<Receive>,
    _session: SessionUse,
}

/// Sends the marks of this thread to `receive`, also while [paused](super::pause). If `is_alone`, recorders of this
/// thread that began before do not receive them.
///
/// # Errors
///
/// If another receiver of all marks is active.
pub fn listen(receive: Rc<Receive>, is_alone: bool) -> Result<Listening, Busy> {
    let session = SessionUse::begin()?;
    RECORDERS.with_borrow_mut(|recorders| {
        recorders.push(ThreadRecorder { receive: Rc::clone(&receive), is_alone });
    });
    Ok(Listening { receive, _session: session })
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = RECORDERS.try_with(|recorders| {
            recorders.borrow_mut().retain(|recorder| !Rc::ptr_eq(&recorder.receive, &self.receive));
        });
    }
}

impl std::fmt::Debug for Listening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listening").finish_non_exhaustive()
    }
}

fn send(mark: Mark<MarkedLine>) {
    let receivers = |recorders: &RefCell<Vec<ThreadRecorder>>| {
        recorders.try_borrow().map_or_else(|_| Vec::new(), |recorders| innermost(&recorders))
    };
    let receivers = RECORDERS.try_with(receivers);
    receivers.unwrap_or_default().iter().for_each(|receive| receive(mark));
}

/// Returns the recorders that receive marks.
fn innermost(recorders: &[ThreadRecorder]) -> Vec<Rc<Receive>> {
    let first = recorders.iter().rposition(|recorder| recorder.is_alone).unwrap_or(0);
    recorders[first..].iter().map(|recorder| Rc::clone(&recorder.receive)).collect()
}

/// Runs the callback that is due after a backward. Nothing is borrowed meanwhile, because it may look at tensors.
fn after_backward(after: Option<fn()>) {
    if let Some(after) = after {
        after();
    }
}

impl Marks for ToRecordings {
    fn enter(&self, function: &'static Function, line: u32) {
        unless_paused(|here| here.enter(function, line, line == 0));
        send(Mark::Enters((Some(function), line)));
    }

    fn resume(&self, function: &'static Function, line: u32) {
        unless_paused(|here| here.enter(function, line, false));
        send(Mark::Enters((Some(function), line)));
    }

    fn line(&self, function: &'static Function, line: u32) {
        let after = unless_paused(|here| {
            let after = here.ended_backward();
            here.mark(function, line);
            after
        });
        after_backward(after.flatten());
        send(Mark::Line((Some(function), line)));
    }

    fn left_block(&self, enclosing: u32) {
        unless_paused(|here| here.left_block(enclosing));
        send(Mark::LeftTo((None, enclosing)));
    }

    fn leave(&self) -> u32 {
        after_backward(unless_paused(Here::ended_backward).flatten());
        let (line, table) = unless_paused(Here::leave).unwrap_or_default();
        send(Mark::Leaves);
        if let Some(table) = table {
            // A closed standard error must not end the program.
            let _ = io::stderr().lock().write_all(table.as_bytes());
        }
        line
    }
}
