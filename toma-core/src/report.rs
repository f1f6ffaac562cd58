//! Reports of calls, for people.

#[cfg(feature = "svg")]
pub use crate::observe::report::svg;
pub use crate::observe::report::{Fullest, Predicted, Report, Shortfall, Tried, Wait, last};
