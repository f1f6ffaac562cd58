//! Whether the rows of a batch are worked on by themselves, so that results of pieces make up that of the whole.
//!
//! # Why
//!
//! A wrong answer is a wrong gradient that nobody sees. So an operator counts as one that keeps rows apart only
//! where a rule says how, and everything that no rule covers is refused by name.

mod forward;
mod judged;
mod keeps;
mod rules;
mod tensors;
mod values;
mod walked;

use std::fmt;

use toma_trace::OperatorId;

pub use judged::Judged;

/// The scope in which the data of a piece are cut from those of the whole.
pub const DATA: &str = "data";

/// The scope whose first operator takes the result of a piece.
pub const RESULT: &str = "result";

/// What a step does with the rows of its batch, by traces of it at two sizes.
///
/// The dimension that differs is that of the batch. A tensor with it is *rows*; one without it, but made of
/// rows, is an *aggregate*, and so is what is made of aggregates; all else is *constant*. Each operator has a rule
/// that says which rows of its results depend on which rows of its arguments.
///
/// Looked at is the forward: the operators before the result is taken, or before the first scope of kind
/// [`Node`](toma_trace::ScopeKind::Node). Not found is what the program computes without operators from numbers that it
/// writes into tensors of a fixed shape.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rows {
    /// How results of pieces make up that of the whole, or the first operator that keeps them from it.
    pub combined: Result<Combined, Coupled>,
    /// Operators that normalize by statistics of the batch, as batch norm does in training.
    pub batch_statistics: Vec<OperatorId>,
}

/// How the results of pieces make up the result of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Combined {
    /// One after the other: each row of the result depends on the same row of the data.
    Rows,
    /// As a mean in which each piece weighs by its rows. A result that depends on no rows is the same in all.
    Mean,
    /// As a sum.
    Sum,
    /// As a mean in which each piece weighs by what it counts, such as the tokens under a mask.
    Counted,
    /// As a mean by rows, or by counts where rows are passed over: a loss that ignores a class which no data may have.
    MeanOrCounted,
}

/// An operator that couples rows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coupled {
    /// The operator, in both traces.
    pub operator: OperatorId,
    /// What the library calls it.
    pub name: String,
    /// How it couples them.
    pub coupling: Coupling,
}

/// How rows of a batch depend on each other, or why that cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Coupling {
    /// A result has the batch in two dimensions, or in one that does not grow with the rows.
    TwoBatchDims,
    /// Rows meet an aggregate of rows.
    RowsWithAggregate,
    /// It runs along the batch: softmax, sort and the like.
    AlongBatch,
    /// It picks rows by their place in the batch.
    PicksRows,
    /// Rows meet rows in another order.
    OtherOrder,
    /// Its aggregate is no sum, mean or loss.
    OtherAggregate,
    /// It changes an aggregate by more than sums and constant factors.
    ThroughAggregate,
    /// It adds a sum over the rows to a mean over the rows.
    SumWithMean,
    /// It adds a constant to a sum over the rows.
    ConstantInSum,
    /// It takes a number that changes with the rows.
    Number,
    /// It takes a number after the program has read one of the rows.
    ReadNumber,
    /// It takes values that the program has written itself.
    Written,
    /// It changes a tensor from before the forward, of which the result is made: each piece would find another.
    ChangesConstant,
    /// No rule says how it treats rows.
    Unknown,
    /// A backward runs before the result is there.
    InnerBackward,
}

impl fmt::Display for Coupled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.coupling {
            Coupling::TwoBatchDims => "gives a result with the batch in two dimensions",
            Coupling::RowsWithAggregate => "combines rows with an aggregate of rows",
            Coupling::AlongBatch => "runs along the batch",
            Coupling::PicksRows => "picks rows by their place in the batch",
            Coupling::OtherOrder => "combines rows with rows in another order",
            Coupling::OtherAggregate => "makes an aggregate of rows that is no sum, mean or loss",
            Coupling::ThroughAggregate => {
                "changes an aggregate of rows by more than sums and constant factors"
            }
            Coupling::SumWithMean => "adds a sum over the rows to a mean over the rows",
            Coupling::ConstantInSum => "adds a constant to a sum over the rows",
            Coupling::Number => "takes a number that changes with the rows",
            Coupling::ReadNumber => "takes a number after the program has read one of the rows",
            Coupling::Written => "takes numbers that the program wrote itself",
            Coupling::ChangesConstant => {
                "changes a tensor that the result is made of, so each piece would take another"
            }
            Coupling::Unknown => "is not known to keep rows apart",
            Coupling::InnerBackward => "follows a backward inside of the body",
        };
        write!(f, "`{}` ({}) {what}", self.name, self.operator)
    }
}
