//! Receives marks, and records the marks of each thread.
//!
//! `f(` enters the function f, and `f+3(` a closure at the third line after its signature. `f~3(` continues a task
//! there. `3` is the mark of that line, `^3` means that a block in its statement was left, and `)` leaves the frame.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use toma::marks::{self, Function, Marks, Session};

#[derive(Default)]
struct Sink(Mutex<Option<HashMap<ThreadId, Received>>>);

#[derive(Default)]
struct Received {
    frames: Vec<(&'static Function, u32)>,
    words: Vec<String>,
    first: Option<&'static Function>,
}

static SINK: Sink = Sink(Mutex::new(None));

/// Only one session can run at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the marks of this thread while `run` runs.
pub(crate) fn received(run: impl FnOnce()) -> String {
    received_by(|| {
        run();
        thread::current().id()
    })
}

/// Returns the marks of the thread whose id `run` returns.
pub(crate) fn received_by(run: impl FnOnce() -> ThreadId) -> String {
    let received = listen(run);
    assert!(received.frames.is_empty(), "frames are left: {}", received.words.join(" "));
    received.words.join(" ")
}

/// Returns the marks of this thread from the start of the session, which `run` starts itself.
pub(crate) fn received_from(run: impl FnOnce(&dyn Fn() -> Session)) -> String {
    let _alone = lock(&ALONE);
    *lock(&SINK.0) = Some(HashMap::new());
    run(&|| marks::start(&SINK).expect("no other session lasts"));
    let mut received = lock(&SINK.0).take().unwrap_or_default();
    received.remove(&thread::current().id()).unwrap_or_default().words.join(" ")
}

/// Returns the function that this thread enters first.
pub(crate) fn entered(run: impl FnOnce()) -> &'static Function {
    let received = listen(|| {
        run();
        thread::current().id()
    });
    received.first.expect("a marked function")
}

/// Runs `run` while marks are received.
pub(crate) fn listening(run: impl FnOnce()) {
    received(run);
}

fn listen(run: impl FnOnce() -> ThreadId) -> Received {
    let _alone = lock(&ALONE);
    *lock(&SINK.0) = Some(HashMap::new());
    let session = marks::start(&SINK).expect("no other session lasts");
    let thread = run();
    drop(session);
    let mut received = lock(&SINK.0).take().unwrap_or_default();
    received.remove(&thread).unwrap_or_default()
}

impl Sink {
    fn record(&self, word: impl FnOnce(&mut Received) -> String) {
        if let Some(received) = &mut *lock(&self.0) {
            let received = received.entry(thread::current().id()).or_default();
            let word = word(received);
            received.words.push(word);
        }
    }
}

impl Received {
    fn enter(&mut self, function: &'static Function, line: u32) -> u32 {
        self.first.get_or_insert(function);
        self.frames.push((function, line));
        offset(function, line)
    }

    /// Sets the current line of the frame, and returns it as a number of lines after the signature.
    fn set(&mut self, line: u32) -> u32 {
        self.frames.last_mut().map_or(u32::MAX, |(function, current)| {
            *current = line;
            offset(function, line)
        })
    }
}

/// Returns the number of lines between the signature and `line`.
fn offset(function: &Function, line: u32) -> u32 {
    function.lines[line as usize].number - function.lines[0].number
}

impl Marks for Sink {
    fn enter(&self, function: &'static Function, line: u32) {
        self.record(|received| match received.enter(function, line) {
            0 => format!("{}(", function.name),
            line => format!("{}+{line}(", function.name),
        });
    }

    fn resume(&self, function: &'static Function, line: u32) {
        self.record(|received| format!("{}~{}(", function.name, received.enter(function, line)));
    }

    fn line(&self, function: &'static Function, line: u32) {
        self.record(|received| match received.frames.last() {
            Some((own, _)) => {
                assert!(std::ptr::eq(*own, function), "{} marks a line of {}", own.name, function.name);
                received.set(line).to_string()
            }
            None => "?".to_owned(),
        });
    }

    fn left_block(&self, enclosing: u32) {
        self.record(|received| {
            if received.frames.is_empty() { "?".to_owned() } else { format!("^{}", received.set(enclosing)) }
        });
    }

    fn leave(&self) -> u32 {
        let mut line = 0;
        self.record(|received| {
            line = received.frames.pop().map_or(0, |(_, line)| line);
            ")".to_owned()
        });
        line
    }
}
