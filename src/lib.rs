//! Memory-adaptive execution.

pub use toma_core::{classify, memory, observe};
