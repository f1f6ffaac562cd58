//! Sessions, in which a value receives the marks of all threads.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::function::Function;

/// Receives the marks of all threads while a [`Session`] lasts.
///
/// Each call is about the innermost frame of the thread that makes it. A session may begin while a thread is in the
/// middle of functions: their marks then come without a frame, until the next frame begins. `line` and `left_block`
/// without a frame have no meaning.
///
/// The calls come from within the program's statements. So they should neither panic nor wait, nor run marked code.
///
/// ```
/// # extern crate toma_core as toma;
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
/// use toma::marks::{self, Function, Marks};
///
/// /// Counts the lines that run.
/// struct Lines(AtomicUsize);
///
/// impl Marks for Lines {
///     fn enter(&self, _: &'static Function, _: u32) {}
///
///     fn resume(&self, _: &'static Function, _: u32) {}
///
///     fn line(&self, _: &'static Function, _: u32) {
///         self.0.fetch_add(1, Relaxed);
///     }
///
///     fn left_block(&self, _: u32) {}
///
///     fn leave(&self) -> u32 {
///         0
///     }
/// }
///
/// static LINES: Lines = Lines(AtomicUsize::new(0));
/// let session = marks::start(&LINES)?;
/// // ... functions with `#[toma::profile]` ...
/// drop(session);
/// println!("{} lines", LINES.0.load(Relaxed));
/// # Ok::<(), marks::Busy>(())
/// ```
pub trait Marks: Sync {
    /// Called when a function is called, with line 0, or a closure of it runs, with the closure's line. Not a hit of a
    /// line.
    fn enter(&self, function: &'static Function, line: u32);

    /// Called when a task that has waited at a line continues there, or is dropped. Not a hit of a line either.
    fn resume(&self, function: &'static Function, line: u32);

    /// Called when a statement begins at this line, given by its index in [`Function::lines`].
    fn line(&self, function: &'static Function, line: u32);

    /// Called when a block within the statement at the line `enclosing` was left, however it was left.
    ///
    /// That line becomes current again only when something else happens in it, because values that a `return` drops
    /// belong to the `return`.
    fn left_block(&self, enclosing: u32);

    /// Called when the innermost frame ends: its function returns or unwinds, or its task waits. Returns the frame's
    /// current line.
    fn leave(&self) -> u32;
}

/// Lets marks be received until it is dropped.
///
/// A mark that another thread makes at that moment may still arrive.
///
/// ```
/// # extern crate toma_core as toma;
/// # use toma::marks::{Function, Marks};
/// use toma::marks;
///
/// # struct Lines;
/// # impl Marks for Lines {
/// #     fn enter(&self, _: &'static Function, _: u32) {}
/// #     fn resume(&self, _: &'static Function, _: u32) {}
/// #     fn line(&self, _: &'static Function, _: u32) {}
/// #     fn left_block(&self, _: u32) {}
/// #     fn leave(&self) -> u32 { 0 }
/// # }
/// let session = marks::start(&Lines)?;
/// drop(session);
/// let _another = marks::start(&Lines)?;
/// # Ok::<(), marks::Busy>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is received once it is dropped"]
pub struct Session(());

/// Error of [`start`]: another session receives the marks already.
///
/// ```
/// # extern crate toma_core as toma;
/// # use toma::marks::{Function, Marks};
/// use toma::marks::{self, Busy};
///
/// # struct Lines;
/// # impl Marks for Lines {
/// #     fn enter(&self, _: &'static Function, _: u32) {}
/// #     fn resume(&self, _: &'static Function, _: u32) {}
/// #     fn line(&self, _: &'static Function, _: u32) {}
/// #     fn left_block(&self, _: u32) {}
/// #     fn leave(&self) -> u32 { 0 }
/// # }
/// let _session = marks::start(&Lines)?;
/// assert!(matches!(marks::start(&Lines), Err(Busy)));
/// # Ok::<(), marks::Busy>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("marks of `#[toma::profile]` have a receiver already: one session at a time")
    }
}

impl Error for Busy {}

/// Stands for no session in place of a session's number.
pub(super) const OFF: u32 = 0;

/// The number of the current session. A mark reads nothing else while there is none.
static SESSION: AtomicU32 = AtomicU32::new(OFF);

static LAST: Mutex<Last> = Mutex::new(Last { number: OFF, receiver: None });

/// The session that began last.
struct Last {
    number: u32,
    receiver: Option<&'static dyn Marks>,
}

thread_local! {
    /// This thread's copy of the last session, so that its marks need no lock.
    static KNOWN: Cell<(u32, Option<&'static dyn Marks>)> = const { Cell::new((OFF, None)) };
}

/// Begins a session in which `marks` receives every mark.
///
/// ```
/// # extern crate toma_core as toma;
/// # use toma::marks::{Function, Marks};
/// use toma::marks;
///
/// # struct Lines;
/// # impl Marks for Lines {
/// #     fn enter(&self, _: &'static Function, _: u32) {}
/// #     fn resume(&self, _: &'static Function, _: u32) {}
/// #     fn line(&self, _: &'static Function, _: u32) {}
/// #     fn left_block(&self, _: u32) {}
/// #     fn leave(&self) -> u32 { 0 }
/// # }
/// let session = marks::start(&Lines)?; // `Lines` implements `Marks`
/// // ... functions with `#[toma::profile]` ...
/// drop(session);
/// # Ok::<(), marks::Busy>(())
/// ```
///
/// # Errors
///
/// When a session lasts already.
pub fn start(marks: &'static dyn Marks) -> Result<Session, Busy> {
    let mut last = last();
    if last.receiver.is_some() {
        return Err(Busy);
    }
    let number = last.number.wrapping_add(1).max(OFF + 1);
    *last = Last { number, receiver: Some(marks) };
    SESSION.store(number, Release);
    Ok(Session(()))
}

impl Drop for Session {
    fn drop(&mut self) {
        let mut last = last();
        SESSION.store(OFF, Release);
        last.receiver = None;
    }
}

fn last() -> MutexGuard<'static, Last> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True while a session lasts.
#[inline]
pub(super) fn is_received() -> bool {
    SESSION.load(Relaxed) != OFF
}

/// Returns the current session and the receiver of its marks, unless the thread is ending.
pub(super) fn receiver() -> Option<(u32, &'static dyn Marks)> {
    let session = SESSION.load(Acquire);
    let (known, marks) = KNOWN.try_with(Cell::get).ok()?;
    let marks = if known == session { marks } else { look(session) };
    marks.map(|marks| (session, marks))
}

#[cold]
fn look(session: u32) -> Option<&'static dyn Marks> {
    let last = last();
    KNOWN.set((last.number, last.receiver));
    last.receiver.filter(|_| last.number == session)
}

impl fmt::Debug for Last {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Last").field("number", &self.number).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marks::expansion::Frame;

    /// Counts frames that begin and end.
    struct Frames {
        entered: AtomicU32,
        left: AtomicU32,
    }

    static FRAMES: Frames = Frames { entered: AtomicU32::new(0), left: AtomicU32::new(0) };

    impl Marks for Frames {
        fn enter(&self, _: &'static Function, _: u32) {
            self.entered.fetch_add(1, Relaxed);
        }
        fn resume(&self, _: &'static Function, _: u32) {}
        fn line(&self, _: &'static Function, _: u32) {}
        fn left_block(&self, _: u32) {}
        fn leave(&self) -> u32 {
            self.left.fetch_add(1, Relaxed)
        }
    }

    fn counts() -> (u32, u32) {
        (FRAMES.entered.load(Relaxed), FRAMES.left.load(Relaxed))
    }

    /// In one test, because there is one session per process.
    #[test]
    fn one_session_lasts_at_a_time_and_receives_its_own_frames() {
        static FUNCTION: Function = Function::new("f", "m", "src/m.rs", &[]);
        let enter = || Frame::enter(&FUNCTION, 0);
        let unreceived = enter();
        let first = start(&FRAMES).unwrap();
        assert_eq!(start(&FRAMES).unwrap_err(), Busy);
        drop((unreceived, enter()));
        assert_eq!(counts(), (1, 1));
        let of_first = enter();
        drop(first);
        assert!(!is_received() && receiver().is_none());
        let second = start(&FRAMES).unwrap();
        drop((of_first, enter()));
        assert_eq!(counts(), (3, 2));
        let of_second = enter();
        drop(second);
        drop(of_second);
        assert_eq!(counts(), (4, 2));
    }
}
