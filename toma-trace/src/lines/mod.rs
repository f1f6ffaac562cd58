//! Effects of each line of a program on memory.
//!
//! A thread reports its marks and allocations to a [`Stack`], which counts them in [`Rows`] while the program runs,
//! without keeping events. [`Lines`] is the table of the rows.

mod accounts;
mod blocks;
mod column;
mod counters;
mod diff;
mod labels;
mod rows;
mod served;
mod shown;
mod sources;
mod stack;
mod table;
mod traced;

pub use blocks::Born;
pub use diff::{Change, Diff};
pub use rows::{DeviceId, Figures, Row, Rows};
pub use served::{Allocator, Served};
pub use sources::{LineId, Source, SourceLine, Sources};
pub use stack::Stack;
pub use table::{Lines, NoEvents};

pub(crate) use traced::birth_lines;
