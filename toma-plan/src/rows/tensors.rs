//! The tensors of each operator, at both sizes.

use toma_trace::{Access, Operand, Operator, OperatorId};

use super::{Coupled, Coupling};
use crate::alike::{SizedTrace, Unlike};

/// A tensor that an operator uses, at two sizes.
#[derive(Clone, Debug)]
pub(super) struct Tensor<'a> {
    /// The operand at the second size.
    pub(super) operand: &'a Operand,
    pub(super) batch: Batch,
    /// True if the program wrote other numbers to it at the first size.
    pub(super) differs_by_host: bool,
}

/// Position of the batch in a tensor's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Batch {
    /// In no dimension: the shape is the same at both sizes.
    None,
    /// In one, of `factor` elements for each row.
    Dim { dim: usize, factor: u64 },
    /// In several, or in one that does not grow with the rows alone.
    Irregular,
}

impl Batch {
    fn of(shapes: [&[u64]; 2], sizes: [u32; 2]) -> Self {
        let mut differ = (0..shapes[0].len()).filter(|&dim| shapes[0][dim] != shapes[1][dim]);
        let Some(dim) = differ.next() else { return Self::None };
        let [first, second] = [0, 1].map(|at| (shapes[at][dim], u64::from(sizes[at])));
        let grows = first.0 * second.1 == second.0 * first.1 && first.0.is_multiple_of(first.1);
        if grows && differ.next().is_none() {
            Self::Dim { dim, factor: first.0 / first.1 }
        } else {
            Self::Irregular
        }
    }
}

impl Tensor<'_> {
    /// True if the operator returns the tensor or writes to it.
    pub(super) fn is_result(&self) -> bool {
        self.operand.access != Access::Reads
    }
}

/// A call of an operator at both sizes.
#[derive(Debug)]
pub(super) struct Twin<'a> {
    pub(super) id: OperatorId,
    /// The operator at each size.
    pub(super) operators: [&'a Operator; 2],
    /// Tensors in the order in which they were recorded.
    pub(super) tensors: Vec<Tensor<'a>>,
}

impl Twin<'_> {
    /// Returns the call with the reason for which it cannot be split.
    pub(super) fn coupled(&self, coupling: Coupling) -> Coupled {
        Coupled { operator: self.id, name: self.operators[1].name.clone(), coupling }
    }
}

/// Pairs the calls of two traces that called the same operators.
///
/// # Errors
/// If an operator used different tensors, with the first.
pub(super) fn twins(recorded: [SizedTrace<'_>; 2]) -> Result<Vec<Twin<'_>>, Unlike> {
    let sizes = recorded.map(|recorded| recorded.size);
    let operands = recorded.map(operands);
    let mut twins = Vec::new();
    for ((first, one), (id, other)) in recorded[0].operators().zip(recorded[1].operators()) {
        let [first, second] = [&operands[0][first.index()], &operands[1][id.index()]];
        let pairs = first.iter().zip(second).map(|(first, second)| tensor(first, second, sizes));
        let tensors: Option<Vec<_>> = pairs.collect();
        let unlike = || Unlike::Uses { operator: id, name: other.name.clone(), sizes };
        let tensors = tensors.filter(|_| first.len() == second.len()).ok_or_else(unlike)?;
        twins.push(Twin { id, operators: [one, other], tensors });
    }
    Ok(twins)
}

/// Returns the operands of each operator.
pub(super) fn operands(recorded: SizedTrace<'_>) -> Vec<Vec<&Operand>> {
    let mut operands = vec![Vec::new(); recorded.trace.operators().len()];
    for used in recorded.trace.uses() {
        operands[used.operator.index()].push(&used.operand);
    }
    operands
}

fn tensor<'a>(first: &Operand, second: &'a Operand, sizes: [u32; 2]) -> Option<Tensor<'a>> {
    let same = first.shape.len() == second.shape.len() && first.access == second.access;
    let differs_by_host = first.written_by_host != second.written_by_host;
    let batch = Batch::of([&first.shape, &second.shape], sizes);
    same.then_some(Tensor { operand: second, batch, differs_by_host })
}
