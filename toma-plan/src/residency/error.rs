//! What goes wrong, with its values.

use thiserror::Error;

use super::Step;

/// A step whose rows do not fit each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what the values are")]
#[non_exhaustive]
pub enum InvalidStep {
    /// There is nothing to do.
    #[error("a step has no operators")]
    NoOperators,
    /// A birth or death lies beyond the end.
    #[error("storage {storage} is born or gone at operator {operator} of {operators}")]
    NoSuchOperator { storage: usize, operator: usize, operators: usize },
    /// A use names a storage that is not in the list.
    #[error("operator {operator} uses storage {storage} of {storages}")]
    NoSuchStorage { operator: usize, storage: usize, storages: usize },
    /// One operator lists a storage twice.
    #[error("operator {operator} lists storage {storage} twice")]
    UsedTwice { operator: usize, storage: usize },
    /// The storage is not born, made by the operator itself, or gone.
    #[error("operator {operator} uses storage {storage}, which is not there when it begins")]
    NotAlive { operator: usize, storage: usize },
    /// Sums of what moves could overflow.
    #[error("the bytes of all storages and the most inside an operator exceed {} together", Step::MOST_BYTES)]
    TooManyBytes,
}

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
