//! Effects of each line of a program on memory.
//!
//! A thread reports its marks and allocations to a [`Stack`], which counts them in [`Rows`] while the program runs,
//! without keeping events. [`Lines`] is the table of the rows.

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
