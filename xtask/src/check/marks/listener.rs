//! The items that marks in a copy of a crate refer to, and a listener for the marks.
//!
//! With `MARKS_HEARD` it listens from before `main` on, and checks that the frames of each thread are consistent.

use std::cell::RefCell;
use std::ptr;

pub use crate::marks;
use crate::marks::{Function, Marks};

/// Deeper frames are not checked.
const DEPTH: usize = 512;

thread_local! {
    /// The frames of a thread, in a fixed array, because allocators contain marks, too.
    static FRAMES: RefCell<([Option<&'static Function>; DEPTH], usize)> = const { RefCell::new(([None; DEPTH], 0)) };
}

struct Listener;

impl Marks for Listener {
    fn enter(&self, function: &'static Function, _: u32) {
        FRAMES.with_borrow_mut(|(frames, depth)| {
            frames.get_mut(*depth).map(|frame| *frame = Some(function));
            *depth += 1;
        });
    }

    fn resume(&self, function: &'static Function, line: u32) {
        self.enter(function, line);
    }

    fn line(&self, function: &'static Function, line: u32) {
        FRAMES.with_borrow(|(frames, depth)| {
            let frame = depth.checked_sub(1).and_then(|top| frames.get(top)).copied().flatten();
            let is_own = frame.is_none_or(|frame| ptr::eq(frame, function));
            assert!(is_own && (line as usize) < function.lines.len(), "a mark of {} in {frame:?}", function.name);
        });
    }

    fn left_block(&self, _: u32) {}

    fn leave(&self) -> u32 {
        FRAMES.with_borrow_mut(|(_, depth)| *depth = depth.checked_sub(1).expect("a frame that was entered"));
        0
    }
}

ctor::declarative::ctor! {
    #[ctor(unsafe)]
    fn listen() {
        if std::env::var_os("MARKS_HEARD").is_some() {
            std::mem::forget(marks::start(&Listener));
        }
    }
}
