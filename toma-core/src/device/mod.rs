//! Devices that threads and tasks share: turns, what is tried when memory runs out, bytes that are kept.

mod cancel;
mod hooks;
mod ladder;
mod ledger;
mod process;
mod queue;
mod registry;
mod reservation;
mod reserving;
#[cfg(test)]
mod tests;
mod turn;
mod wait;
mod waiting;
mod watchdog;

pub use cancel::Cancel;
pub use hooks::{Hooked, Pressure, on_release};
pub(crate) use hooks::{ask, is_registered};
pub use ladder::{Ladder, Rung, falls_back};
pub(crate) use queue::{Kind, Seen};
pub use reservation::{NotReserved, Reservation, reserve, reserve_async, try_reserve};
pub(crate) use turn::{Device, Measurement, Turn};
pub(crate) use waiting::{Bounds, How, Waiting};
