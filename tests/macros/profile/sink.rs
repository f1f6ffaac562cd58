//! Hears marks, and writes down what each thread tells.
//!
//! `f(` enters the function f, and `f+3(` a closure at the third line behind its signature. `f~3(` goes on with a task
//! there. `3` is the mark of that line, `^3` says that a block in its statement was left, and `)` leaves the frame.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use toma::marks::{self, Function, Marks, Session};

#[derive(Default)]
struct Sink(Mutex<Option<HashMap<ThreadId, Told>>>);

#[derive(Default)]
struct Told {
    frames: Vec<(&'static Function, u32)>,
    words: Vec<String>,
    first: Option<&'static Function>,
}

static SINK: Sink = Sink(Mutex::new(None));

/// One session lasts at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What this thread tells while it runs something.
pub(crate) fn told(run: impl FnOnce()) -> String {
    told_by(|| {
        run();
        thread::current().id()
    })
}

/// What the thread tells whose id comes back.
pub(crate) fn told_by(run: impl FnOnce() -> ThreadId) -> String {
    let told = listen(run);
    assert!(told.frames.is_empty(), "frames are left: {}", told.words.join(" "));
    told.words.join(" ")
}

/// What this thread tells from when the session that it is handed begins.
pub(crate) fn told_from(run: impl FnOnce(&dyn Fn() -> Session)) -> String {
    let _alone = lock(&ALONE);
    *lock(&SINK.0) = Some(HashMap::new());
    run(&|| marks::start(&SINK).expect("no other session lasts"));
    let mut told = lock(&SINK.0).take().unwrap_or_default();
    told.remove(&thread::current().id()).unwrap_or_default().words.join(" ")
}

/// The function that this thread enters first.
pub(crate) fn entered(run: impl FnOnce()) -> &'static Function {
    let told = listen(|| {
        run();
        thread::current().id()
    });
    told.first.expect("a marked function")
}

/// Runs something while marks are heard.
pub(crate) fn listening(run: impl FnOnce()) {
    told(run);
}

fn listen(run: impl FnOnce() -> ThreadId) -> Told {
    let _alone = lock(&ALONE);
    *lock(&SINK.0) = Some(HashMap::new());
    let session = marks::start(&SINK).expect("no other session lasts");
    let thread = run();
    drop(session);
    let mut told = lock(&SINK.0).take().unwrap_or_default();
    told.remove(&thread).unwrap_or_default()
}

impl Sink {
    fn tell(&self, word: impl FnOnce(&mut Told) -> String) {
        if let Some(told) = &mut *lock(&self.0) {
            let told = told.entry(thread::current().id()).or_default();
            let word = word(told);
            told.words.push(word);
        }
    }
}

impl Told {
    fn enter(&mut self, function: &'static Function, line: u32) -> u32 {
        self.first.get_or_insert(function);
        self.frames.push((function, line));
        offset(function, line)
    }

    /// The frame's line from now on, as it is written.
    fn set(&mut self, line: u32) -> u32 {
        self.frames.last_mut().map_or(u32::MAX, |(function, current)| {
            *current = line;
            offset(function, line)
        })
    }
}

/// How many lines behind the signature.
fn offset(function: &Function, line: u32) -> u32 {
    function.lines[line as usize].number - function.lines[0].number
}

impl Marks for Sink {
    fn enter(&self, function: &'static Function, line: u32) {
        self.tell(|told| match told.enter(function, line) {
            0 => format!("{}(", function.name),
            line => format!("{}+{line}(", function.name),
        });
    }

    fn resume(&self, function: &'static Function, line: u32) {
        self.tell(|told| format!("{}~{}(", function.name, told.enter(function, line)));
    }

    fn line(&self, function: &'static Function, line: u32) {
        self.tell(|told| match told.frames.last() {
            Some((own, _)) => {
                assert!(std::ptr::eq(*own, function), "{} marks a line of {}", own.name, function.name);
                told.set(line).to_string()
            }
            None => "?".to_owned(),
        });
    }

    fn left_block(&self, enclosing: u32) {
        self.tell(
            |told| if told.frames.is_empty() { "?".to_owned() } else { format!("^{}", told.set(enclosing)) },
        );
    }

    fn leave(&self) -> u32 {
        let mut line = 0;
        self.tell(|told| {
            line = told.frames.pop().map_or(0, |(_, line)| line);
            ")".to_owned()
        });
        line
    }
}
