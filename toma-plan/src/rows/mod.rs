//! Decides if the rows of a batch are computed independently, so that results of pieces make up the whole result.
//!
//! # Why
//!
//! A wrong verdict gives a wrong gradient that nobody notices. So an operator counts as one that keeps rows apart only
//! if a rule defines how, and every operator that no rule covers is refused by name.

mod aggregates;
mod calls;
mod forward;
mod judged;
mod keeps;
mod path;
mod rules;
mod tensors;
mod values;
mod walked;

use std::fmt;

use toma_trace::OperatorId;

pub use judged::Judged;

/// The scope in which the data of a piece are cut from the whole batch.
pub const DATA: &str = "data";

/// The scope whose first operator takes the result of a piece.
pub const RESULT: &str = "result";

/// The scope by which a body that has changed gradients without a backward of its own is marked.
pub const GRADIENTS: &str = "changed gradients";

/// Treatment of the rows of a batch by a step, computed from traces at two sizes.
///
/// The dimension that differs is the batch dimension. A tensor with it is *rows*; a tensor without it that is made of
/// rows or of aggregates is an *aggregate*; all others are *constant*. Each operator has a rule that says which rows of
/// its results depend on which rows of its arguments.
///
/// Only the forward is examined: the operators before the result is taken, or before the first scope of kind
/// [`Node`](toma_trace::ScopeKind::Node). Values that the program computes without operators, from numbers that it
/// writes into tensors of a fixed shape, are not found.
///
/// ```
/// use toma_plan::Rows;
///
/// /// The reason why a batch cannot be cut into pieces, if there is one.
/// fn objection(rows: &Rows) -> Option<String> {
///     let coupled = rows.combined.as_ref().err()?;
///     Some(format!("{} mixes rows: {:?}", coupled.name, coupled.coupling))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rows {
    /// Rule that combines the results of pieces, or the first operator that prevents it.
    pub combined: Result<Combined, Coupled>,
    /// Operators that normalize by statistics of the batch, as batch norm does in training.
    pub batch_statistics: Vec<OperatorId>,
}

/// Rule that combines the results of pieces to the result of the whole.
///
/// ```
/// use toma_plan::{Combined, Rows};
///
/// /// True if the results of pieces are concatenated.
/// fn is_by_row(rows: &Rows) -> bool {
///     matches!(rows.combined, Ok(Combined::Rows))
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Combined {
    /// One after the other: each row of the result depends on the same row of the data.
    Rows,
    /// As a mean in which each piece weighs by its rows. A result that depends on no rows is the same in all.
    Mean,
    /// As a sum.
    Sum,
    /// As a mean in which each piece weighs by its count of elements, such as the tokens under a mask.
    Counted,
    /// As a mean by rows, or by counts if rows are skipped: a loss with an ignored class that may not occur in the
    /// data.
    MeanOrCounted,
}

/// An operator that couples rows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coupled {
    /// The operator, in both traces.
    pub operator: OperatorId,
    /// The library's name of the operator.
    pub name: String,
    /// The way in which it couples rows.
    pub coupling: Coupling,
}

/// Dependencies between rows of a batch, or reasons why they cannot be determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Coupling {
    /// A result has the batch in two dimensions, or in one that does not grow with the rows.
    TwoBatchDims,
    /// Rows meet an aggregate of rows.
    RowsWithAggregate,
    /// The operator runs along the batch, as softmax and sort do.
    AlongBatch,
    /// The operator picks rows by their position in the batch.
    PicksRows,
    /// Rows meet rows in another order.
    OtherOrder,
    /// The operator makes an aggregate that is no sum, mean or loss.
    OtherAggregate,
    /// The operator changes an aggregate by more than sums and constant factors.
    ThroughAggregate,
    /// The operator adds a sum over the rows to a mean over the rows.
    SumWithMean,
    /// The operator adds a constant to a sum over the rows.
    ConstantInSum,
    /// The operator takes a number that changes with the rows.
    Number,
    /// The operator takes a number after the program has read one of the rows.
    ReadNumber,
    /// The operator takes values that the program has written itself.
    Written,
    /// The operator takes values that the program has written itself, other ones in each run.
    WrittenAnew,
    /// The operator averages over labels that the body computes, of which some may be ignored.
    OwnLabels,
    /// The operator changes a tensor from before the forward on which the result depends: each piece would find another
    /// value.
    ChangesConstant,
    /// No rule defines how the operator treats rows.
    Unknown,
    /// A backward runs before the result is there, or gradients are changed in another way.
    InnerBackward,
}

impl fmt::Display for Coupled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.coupling {
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
            Coupling::Written => "takes numbers that the program wrote itself, or whose memory it has read",
            Coupling::WrittenAnew => "takes numbers that the program wrote itself, other ones in each run",
            Coupling::OwnLabels => "averages over labels that the body computes, of which some may be -100",
            Coupling::ChangesConstant => {
                "changes a tensor that the result is made of, so each piece would take another"
            }
            Coupling::Unknown => "is not known to keep rows apart",
            Coupling::InnerBackward => {
                "follows a backward inside of the body, or another change of gradients"
            }
        };
        write!(f, "`{}` ({}) {reason}", self.name, self.operator)
    }
}
