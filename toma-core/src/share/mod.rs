//! Threads and tasks that share a device: cancellation of waits, and bytes kept for a caller.

#[allow(dead_code, reason = "for the engine, which takes a seat per call")]
mod admission;
#[allow(dead_code, reason = "for the engine, which takes a seat per call")]
mod arbiter;
mod cancel;
#[cfg(test)]
mod every_order;
#[allow(dead_code, reason = "for the engine, which takes a seat per call")]
mod hub;
mod ledger;
mod reservation;
#[allow(dead_code, reason = "for the engine, which takes a seat per call")]
mod seat;
#[allow(dead_code, reason = "for the engine, which takes a seat per call")]
mod slots;
mod sync;
#[cfg(test)]
mod tests;
mod wait;
mod watchdog;

#[allow(unused_imports, reason = "for the engine, which takes a seat per call")]
pub(crate) use admission::{Admission, Admitted, Bounds};
#[allow(unused_imports, reason = "for the engine, which takes a seat per call")]
pub(crate) use arbiter::Kind;
pub use cancel::Cancel;
pub use reservation::{NotReserved, Reservation, reserve, reserve_async, try_reserve};
#[allow(unused_imports, reason = "for the engine, which takes a seat per call")]
pub(crate) use seat::Seat;
#[allow(unused_imports, reason = "for the engine, which takes a seat per call")]
pub(crate) use slots::Node;
