//! Threads and tasks that share a device: cancellation of waits, and bytes kept for a caller.

mod cancel;
#[allow(dead_code, reason = "for the engine, which takes a seat per call")]
mod seat;

pub use cancel::Cancel;
#[allow(unused_imports, reason = "for the engine, which takes a seat per call")]
pub(crate) use seat::{Admission, Admitted, Bounds, Kind, Node, Seat};
