//! What each line of a program does to memory.
//!
//! A thread tells its marks and allocations to a [`Stack`]; what they mean is counted in [`Rows`], while the program
//! runs and without keeping an event.

mod accounts;
mod counters;
mod rows;
mod sources;
mod stack;
mod stays;

pub use rows::{DeviceId, Figures, Row, Rows};
pub use sources::{LineId, Source, SourceLine, Sources};
pub use stack::{Born, Stack};
