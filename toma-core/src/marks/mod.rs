//! Marks of the line that runs, made by functions under `#[toma::profile]`.
//!
//! The attribute puts a [mark](Marks::line) before each statement, a guard into each block and a frame around the body.
//! They refer to a static [`Function`], which holds the text of its lines. Without a session, a mark is one relaxed
//! load. [`start`] makes a value receive the marks of all threads until the [`Session`] ends.
//!
//! ```
//! # use toma_core as toma;
//! use std::sync::Mutex;
//! use toma::marks::{self, Function, Line, Marks};
//!
//! #[derive(Default)]
//! struct Log(Mutex<Vec<&'static str>>);
//!
//! impl Marks for Log {
//!     fn line(&self, function: &'static Function, line: u32) {
//!         self.0.lock().unwrap().push(function.lines[line as usize].text);
//!     }
//! #   fn enter(&self, _: &'static Function, _: u32) {}
//! #   fn resume(&self, _: &'static Function, _: u32) {}
//! #   fn left_block(&self, _: u32) {}
//! #   fn leave(&self) -> u32 { 0 }
//!     // .. and the methods for frames
//! }
//!
//! # use toma::marks::expansion::line;
//! // The expansion of `fn twice(x: u32) -> u32 { x * 2 }`:
//! static TWICE: Function = Function::new(
//!     "twice", "demo", "src/main.rs", &[Line::new(1, "fn twice(x: u32) -> u32 {"), Line::new(2, "x * 2")],
//! );
//! fn twice(x: u32) -> u32 {
//!     line(&TWICE, 1);
//!     x * 2
//! }
//!
//! static LOG: Log = Log(Mutex::new(Vec::new()));
//! let session = marks::start(&LOG)?;
//! assert_eq!(twice(4), 8);
//! drop(session);
//! assert_eq!(*LOG.0.lock().unwrap(), ["x * 2"]);
//! # Ok::<(), marks::Busy>(())
//! ```

mod column;
mod frame;
mod function;
mod session;
mod task;

pub use column::{Column, UnknownColumn};
pub use function::{Function, Line};
pub use session::{Busy, Marks, Session, start};

/// The functions and types used by expansions of `#[toma::profile]`. Not for users: anything here may change.
#[doc(hidden)]
pub mod expansion {
    pub use super::column::Column;
    pub use super::frame::{Block, Frame, line, never};
    pub use super::function::{Function, Line};
    pub use super::task::profiled;
}
