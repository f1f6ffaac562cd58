//! What hears the marks of all threads: the recording that runs, and recorders of single threads.

use std::cell::RefCell;
use std::io::{self, Write as _};
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::thread::{Here, unless_paused};
use crate::marks::{self, Busy, Function, Marks, Session};

#[derive(Debug)]
struct Ears;

/// The session, and what it is for.
static SESSION: Mutex<(usize, Option<Session>)> = Mutex::new((0, None));

fn session() -> MutexGuard<'static, (usize, Option<Session>)> {
    SESSION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marks are heard until it is dropped.
#[derive(Debug)]
pub(super) struct Hearing(());

pub(super) fn hear() -> Result<Hearing, Busy> {
    let mut session = session();
    if session.1.is_none() {
        session.1 = Some(marks::start(&Ears)?);
    }
    session.0 += 1;
    Ok(Hearing(()))
}

impl Drop for Hearing {
    fn drop(&mut self) {
        let mut session = session();
        session.0 -= 1;
        if session.0 == 0 {
            session.1 = None;
        }
    }
}

thread_local! {
    /// The recorders of this thread, the innermost last.
    static LISTENERS: RefCell<Vec<Listener>> = const { RefCell::new(Vec::new()) };
}

/// A mark of a thread.
#[derive(Clone, Copy, Debug)]
pub enum Mark {
    /// A function is called, one of its closures runs, or a task goes on, at a line.
    Enters(&'static Function, u32),
    /// A line comes into force.
    Line(&'static Function, u32),
    /// A block was left that this line of the innermost function encloses.
    LeftTo(u32),
    /// The innermost function ends, which may have begun before.
    Leaves,
}

#[derive(Clone)]
struct Listener {
    tell: Rc<dyn Fn(Mark)>,
    /// What is around it hears nothing meanwhile.
    is_alone: bool,
}

/// A recorder of one thread, which hears the thread's marks until this is dropped.
#[must_use = "nothing is heard once it is dropped"]
pub struct Listening {
    tell: Rc<dyn Fn(Mark)>,
    _hearing: Hearing,
}

/// Lets `tell` hear the marks of this thread, also while [paused](super::pause). If it is alone, recorders of this
/// thread that began before do not hear them.
///
/// # Errors
///
/// When something else hears all marks.
pub fn listen(tell: Rc<dyn Fn(Mark)>, is_alone: bool) -> Result<Listening, Busy> {
    let hearing = hear()?;
    LISTENERS.with_borrow_mut(|listeners| listeners.push(Listener { tell: Rc::clone(&tell), is_alone }));
    Ok(Listening { tell, _hearing: hearing })
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = LISTENERS.try_with(|listeners| {
            listeners.borrow_mut().retain(|listener| !Rc::ptr_eq(&listener.tell, &self.tell));
        });
    }
}

impl std::fmt::Debug for Listening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listening").finish_non_exhaustive()
    }
}

fn tell(mark: Mark) {
    let heard = |listeners: &RefCell<Vec<Listener>>| {
        listeners.try_borrow().map_or_else(|_| Vec::new(), |listeners| innermost(&listeners))
    };
    let told = LISTENERS.try_with(heard);
    told.unwrap_or_default().iter().for_each(|tell| tell(mark));
}

/// Those that hear.
fn innermost(listeners: &[Listener]) -> Vec<Rc<dyn Fn(Mark)>> {
    let first = listeners.iter().rposition(|listener| listener.is_alone).unwrap_or(0);
    listeners[first..].iter().map(|listener| Rc::clone(&listener.tell)).collect()
}

/// Calls what is due after a backward. Nothing is borrowed meanwhile, because it may look at tensors.
fn after_backward(after: Option<fn()>) {
    if let Some(after) = after {
        after();
    }
}

impl Marks for Ears {
    fn enter(&self, function: &'static Function, line: u32) {
        unless_paused(|here| here.enter(function, line, line == 0));
        tell(Mark::Enters(function, line));
    }

    fn resume(&self, function: &'static Function, line: u32) {
        unless_paused(|here| here.enter(function, line, false));
        tell(Mark::Enters(function, line));
    }

    fn line(&self, function: &'static Function, line: u32) {
        let after = unless_paused(|here| {
            let after = here.ended_backward();
            here.mark(function, line);
            after
        });
        after_backward(after.flatten());
        tell(Mark::Line(function, line));
    }

    fn left_block(&self, enclosing: u32) {
        unless_paused(|here| here.left_block(enclosing));
        tell(Mark::LeftTo(enclosing));
    }

    fn leave(&self) -> u32 {
        after_backward(unless_paused(Here::ended_backward).flatten());
        let (line, table) = unless_paused(Here::leave).unwrap_or_default();
        tell(Mark::Leaves);
        if let Some(table) = table {
            // A standard error that is closed must not end the program.
            let _ = io::stderr().lock().write_all(table.as_bytes());
        }
        line
    }
}
