//! What each line of a program does to memory.
//!
//! A thread tells its marks and allocations to a [`Stack`]; what they mean is counted in [`Rows`], while the program
//! runs and without keeping an event. [`Lines`] are the table of them.

mod accounts;
mod column;
mod counters;
mod diff;
mod labels;
mod rows;
mod served;
mod shown;
mod sources;
mod stack;
mod stays;
mod table;
mod traced;

pub use diff::{Change, Diff};
pub use rows::{DeviceId, Figures, Row, Rows};
pub use served::{Allocator, Served};
pub use sources::{LineId, Source, SourceLine, Sources};
pub use stack::{Born, Stack};
pub use table::{Lines, NoEvents};

pub(crate) use traced::birth_lines;
