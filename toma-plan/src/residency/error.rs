//! The error of a step that does not fit, with its values.

use thiserror::Error;

/// An operator that does not fit, although all storages that can be evicted are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("operator {operator} needs {needed_bytes} bytes of a budget of {budget_bytes}")]
#[non_exhaustive]
pub struct OutOfMemory {
    /// Number of the operator, counted over all rounds.
    pub operator: u64,
    /// Bytes that the operator uses and allocates, and those that are never evicted.
    pub needed_bytes: u64,
    /// The budget.
    pub budget_bytes: u64,
}
