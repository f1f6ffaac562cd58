//! Whether the rows of a batch are worked on by themselves, so that pieces add up to the whole.

mod rules;
mod tensors;

use std::collections::BTreeMap;
use std::fmt;

use toma_trace::{Access, OperatorId, ScopeKind, StorageId, Tick, Trace};

use crate::alike::{Recorded, Unlike, same_operators};
use rules::{Call, Input};
use tensors::{Tensor, tensors};

/// What a step does with the rows of its batch, by traces of it at two sizes.
///
/// The dimensions that differ are those of the batch. A tensor with one is *rows*; without one, but made of
/// rows, it is an *aggregate*, and so is what is made of aggregates; all else is *constant*. Gradients of
/// pieces add up to those of the whole where rows meet no aggregate and no other rows, and the loss is a sum
/// or mean. Work without gradients counts where its results reach work with gradients.
///
/// Only the forward is looked at: operators before the first scope of kind [`Node`](ScopeKind::Node). They
/// are told apart by shapes, names and the attributes `dim` or `dims`, `training` and `reduction`. Not found are rows
/// that are cut along the batch and then meet, and numbers of the rows that the program reads, as by `item`, and
/// multiplies a loss by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rows {
    /// The first operator that couples rows: pieces do not add up to the whole.
    pub coupled: Option<Coupled>,
    /// The first operator that adds a constant to an aggregate: pieces of a mean add up, those of a sum do
    /// not.
    pub adds_constant: Option<OperatorId>,
    /// The last sum of rows: pieces of a sum add up, those of a mean do not.
    pub summed: Option<Summed>,
    /// Operators that normalize by statistics of the batch, as batch norm does in training.
    pub batch_statistics: Vec<OperatorId>,
}

/// An operator that sums rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summed {
    /// The operator, in both traces.
    pub operator: OperatorId,
    /// How many operators scale an aggregate after it: a sum that is divided by the count is a mean.
    pub scalings: usize,
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

/// How rows of a batch depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Coupling {
    /// A result has the batch in two dimensions.
    TwoBatchDims,
    /// Rows meet an aggregate of rows.
    RowsWithAggregate,
    /// It runs along the batch: softmax, sort and the like.
    AlongBatch,
    /// It picks rows by their place in the batch.
    PicksRows,
    /// Its aggregate is no sum, mean or loss.
    OtherAggregate,
    /// It changes an aggregate by more than sums and constant factors.
    ThroughAggregate,
    /// It divides an aggregate by another, as a mean over a mask does.
    MaskedMean,
}

impl fmt::Display for Coupled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.coupling {
            Coupling::TwoBatchDims => "gives a result with the batch in two dimensions",
            Coupling::RowsWithAggregate => "combines rows with an aggregate of rows",
            Coupling::AlongBatch => "runs along the batch",
            Coupling::PicksRows => "picks rows by their place in the batch",
            Coupling::OtherAggregate => "makes an aggregate of rows that is no sum, mean or loss",
            Coupling::ThroughAggregate => {
                "changes an aggregate of rows by more than sums and constant factors"
            }
            Coupling::MaskedMean => "divides an aggregate of rows by another, as a mean over a mask does",
        };
        write!(f, "`{}` ({}) {what}", self.name, self.operator)
    }
}

impl Rows {
    /// Looks at two traces of a step, each with its size.
    ///
    /// # Errors
    ///
    /// When a size is 0 or both are the same, or the forwards called other operators or touched other
    /// tensors.
    pub fn of(traces: [(u32, &Trace); 2]) -> Result<Self, Unlike> {
        let [(size, _), (other, _)] = traces;
        if size == other || size == 0 || other == 0 {
            return Err(Unlike::Size { size: size.min(other) });
        }
        let recorded = traces.map(|(size, trace)| Recorded { size, trace, until: forward_end(trace) });
        same_operators(recorded[0], recorded[1])?;
        let touched = tensors(recorded)?;
        let mut walk = Walk::default();
        for ((id, operator), tensors) in recorded[1].operators().zip(&touched) {
            walk.step(id, &Call::new(operator, walk.inputs(tensors), tensors), tensors);
            if walk.found.coupled.is_some() {
                break;
            }
        }
        Ok(walk.found)
    }
}

/// The first node of gradients begins backward. From there on gradients meet, and optimizers run.
fn forward_end(trace: &Trace) -> Tick {
    let mut nodes = trace.scopes().filter(|(_, scope)| scope.label.kind == ScopeKind::Node);
    nodes.next().map_or(trace.end(), |(_, node)| node.interval.begin)
}

/// What a tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Constant,
    Aggregate,
    Rows,
}

/// What is known of the storages when an operator begins.
#[derive(Debug, Default)]
struct Walk {
    /// What was made, or written into what was there.
    kinds: BTreeMap<StorageId, Kind>,
    /// Couplings that no gradient has seen.
    unseen: BTreeMap<StorageId, Coupled>,
    found: Rows,
}

impl Walk {
    /// A view shows no tensor that it is made of: that is what its storage holds. A storage is what was made
    /// in it, so a constant or an aggregate that is spread over the batch stays one.
    fn inputs<'a>(&self, tensors: &[Tensor<'a>]) -> Vec<Input<'a>> {
        let is_new = |index: usize, tensor: &Tensor<'_>| match tensor.operand.access {
            Access::Reads | Access::Views => true,
            // What is written is an argument, and may be a result, too.
            Access::Writes => tensors[..index].iter().all(|earlier| !earlier.is_written_as(tensor)),
            Access::Makes => false,
        };
        let inputs = tensors.iter().enumerate().filter(|(index, tensor)| is_new(*index, tensor));
        inputs.map(|(_, tensor)| self.input(tensor)).collect()
    }

    fn input<'a>(&self, tensor: &Tensor<'a>) -> Input<'a> {
        let is_view = tensor.operand.access == Access::Views;
        let kind = match self.kinds.get(&tensor.operand.storage) {
            // One row, or some that are picked.
            Some(held) if !is_view && tensor.batch.is_empty() => (*held).min(Kind::Aggregate),
            Some(held) => *held,
            None if tensor.batch.is_empty() => Kind::Constant,
            None => Kind::Rows,
        };
        Input { kind, batch: tensor.batch.first().copied(), shape: &tensor.operand.shape }
    }

    fn step(&mut self, id: OperatorId, call: &Call<'_>, tensors: &[Tensor<'_>]) {
        let wanted = tensors.iter().any(|tensor| tensor.is_result() && tensor.operand.wants_gradient);
        let coupled =
            call.coupling().map(|coupling| Coupled { operator: id, name: call.name().into(), coupling });
        let coupled = coupled
            .or_else(|| tensors.iter().find_map(|tensor| self.unseen.get(&tensor.operand.storage).cloned()));
        if wanted {
            self.found.batch_statistics.extend(call.takes_batch_statistics().then_some(id));
            self.found.adds_constant = self.found.adds_constant.or(call.adds_constant().then_some(id));
            if let Some(summed) = &mut self.found.summed {
                summed.scalings += usize::from(call.scales());
            }
            let summed = call.sums().then_some(Summed { operator: id, scalings: 0 });
            self.found.summed = summed.or(self.found.summed);
            self.found.coupled = coupled;
        } else if let Some(coupled) = coupled {
            // A view tells nothing of what else its storage holds.
            let results = tensors.iter().filter(|tensor| tensor.changes_storage());
            self.unseen.extend(results.map(|tensor| (tensor.operand.storage, coupled.clone())));
        }
        for tensor in
            tensors.iter().filter(|tensor| tensor.is_result() && tensor.operand.access != Access::Views)
        {
            let kind = call.kind_of(tensor);
            let held = self.kinds.entry(tensor.operand.storage).or_insert(kind);
            *held = kind.max(*held);
        }
    }
}
