//! The tensors of each operator, at both sizes.

use toma_trace::{Access, Operand};

use crate::alike::{Recorded, Unlike};

/// A tensor that an operator touches.
#[derive(Clone, Debug)]
pub(super) struct Tensor<'a> {
    /// As it is at the second size.
    pub(super) operand: &'a Operand,
    /// The dimensions that differ between the sizes.
    pub(super) batch: Vec<usize>,
}

impl Tensor<'_> {
    /// Whether the operator returns it, or leaves values in it.
    pub(super) fn is_result(&self) -> bool {
        self.operand.access != Access::Reads
    }

    /// Whether it and the other are one storage that is written.
    pub(super) fn is_written_as(&self, other: &Self) -> bool {
        self.operand.access == Access::Writes && self.operand.storage == other.operand.storage
    }

    /// Whether values in its storage are new.
    pub(super) fn changes_storage(&self) -> bool {
        matches!(self.operand.access, Access::Makes | Access::Writes)
    }
}

/// The tensors of each operator, in the order in which they were noted.
pub(super) fn tensors(recorded: [Recorded<'_>; 2]) -> Result<Vec<Vec<Tensor<'_>>>, Unlike> {
    let [first, second] = recorded.map(operands);
    let mut touched = Vec::new();
    for (((id, operator), first), second) in recorded[1].operators().zip(first).zip(second) {
        let pairs = first.iter().zip(&second).map(|(first, second)| tensor(first, second));
        let tensors: Option<Vec<_>> = pairs.collect();
        let sizes = recorded.map(|recorded| recorded.size);
        let unlike = || Unlike::Uses { operator: id, name: operator.name.clone(), sizes };
        touched.push(tensors.filter(|_| first.len() == second.len()).ok_or_else(unlike)?);
    }
    Ok(touched)
}

fn operands(recorded: Recorded<'_>) -> Vec<Vec<&Operand>> {
    let mut operands = vec![Vec::new(); recorded.trace.operators().len()];
    for used in recorded.trace.uses() {
        operands[used.operator.index()].push(&used.operand);
    }
    operands
}

fn tensor<'a>(first: &Operand, second: &'a Operand) -> Option<Tensor<'a>> {
    let same = first.shape.len() == second.shape.len() && first.access == second.access;
    let sizes = || first.shape.iter().zip(&second.shape).enumerate();
    let batch = || sizes().filter(|(_, (first, second))| first != second).map(|(dim, _)| dim).collect();
    same.then(|| Tensor { operand: second, batch: batch() })
}
