//! What goes wrong, with its values.

use thiserror::Error;

/// An operator that does not fit, although everything has left that can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("operator {operator} needs {needed_bytes} bytes of a budget of {budget_bytes}")]
#[non_exhaustive]
pub struct OutOfMemory {
    /// Its number, counted over all rounds.
    pub operator: u64,
    /// What it uses and allocates, and what never leaves.
    pub needed_bytes: u64,
    /// The budget.
    pub budget_bytes: u64,
}
