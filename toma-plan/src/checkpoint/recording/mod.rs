//! Recording of a region, and the decisions that come before its plan.
//!
//! A plan needs the costs of stages, and those are measured in a first run. So the first run decides by rules where
//! stages end and which of their inputs it holds, from the sizes of its tensors alone. When its backward is over, a
//! [`Ledger`] makes [`Costs`](super::Costs) of the measurements.
//!
//! The program that runs the operators owns the tensors. It passes a [`Recording`] with each question: arrays of sizes
//! and numbers, with the facts that it alone knows, such as which tensors are alive at that moment.

mod draft;
mod facts;
mod ledger;
mod measured;
mod step;
mod storages;
mod unite;
mod uses;

pub use draft::{Boundary, Draft};
pub use facts::{NONE, Recorded, Recording, Slot, Value};
pub use ledger::{Ledger, Readings};
pub use measured::{Measured, Run};
pub use step::Step;
