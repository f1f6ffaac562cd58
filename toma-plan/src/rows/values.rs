//! Values of tensors, storage by storage.

use std::collections::BTreeMap;

use toma_trace::{Access, StorageId};

use super::tensors::{Batch, Tensor};
use super::{Combined, Coupled, Coupling};

/// Dependence of a tensor on the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// No rows.
    Constant,
    /// Numbers written by the program, which may come from rows that it has read.
    Written,
    /// A row for each row of the data.
    Rows(Layout),
    /// All rows together; never [`Combined::Rows`].
    Aggregate(Combined),
    /// Rows that are coupled.
    Coupled(Coupled),
}

/// Position of the rows in the batch dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Number of elements of dimensions before the batch that are merged into its dimension; 0 if all elements are
    /// equal or random, so that no order matters.
    pub(super) merged: u64,
    /// The mask that has selected the elements.
    pub(super) mask: Option<StorageId>,
}

impl Layout {
    /// Rows one after the other.
    pub(super) const PLAIN: Self = Self { merged: 1, mask: None };
    /// Rows that may lie in any order.
    pub(super) const ANY: Self = Self { merged: 0, mask: None };

    /// Rows that meet no other rows, not even of the same tensor.
    pub(super) const UNKNOWN: Self = Self { merged: u64::MAX, mask: None };

    /// Returns the layout of a result in which elements of both meet.
    pub(super) fn meets(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::ANY, met) | (met, Self::ANY) => Some(met),
            _ => (self == other && self != Self::UNKNOWN).then_some(self),
        }
    }

    /// Returns the number of merged elements for operators to which order matters.
    pub(super) fn merged(self) -> u64 {
        self.merged.max(1)
    }
}

/// The value of a storage, and the layout of its rows in each of its shapes: views of one storage differ by shape.
#[derive(Clone, Debug)]
struct StorageValue {
    value: Value,
    /// Number of elements of the largest tensor seen in it.
    elements: u64,
    /// True if it was made of zeros, and nothing else has been written to it.
    is_zeros: bool,
    is_computed: bool,
    shapes: Vec<(Vec<u64>, Result<Layout, Coupled>)>,
}

/// Known values of storages when an operator begins.
#[derive(Debug)]
pub(super) struct Values {
    held: BTreeMap<StorageId, StorageValue>,
    /// True if data are cut in scopes of their own, so that all other rows from before the forward were picked.
    is_cut: bool,
}

impl Values {
    pub(super) fn new(is_cut: bool) -> Self {
        Self { held: BTreeMap::new(), is_cut }
    }

    /// Returns the value of an argument, and records a tensor from before the forward.
    pub(super) fn taken(&mut self, tensor: &Tensor<'_>) -> Result<Value, Coupling> {
        let value = self.of(tensor)?;
        match self.held.get_mut(&tensor.operand.storage) {
            Some(held) => held.elements = held.elements.max(elements(tensor)),
            None => self.note(tensor, &value),
        }
        Ok(value)
    }

    /// Returns the value of a tensor, or its coupling.
    pub(super) fn of(&self, tensor: &Tensor<'_>) -> Result<Value, Coupling> {
        let Some(held) = self.held.get(&tensor.operand.storage) else { return self.unseen(tensor) };
        let seen = held.shapes.iter().find(|(shape, _)| *shape == tensor.operand.shape);
        match (&held.value, seen, tensor.batch) {
            (_, Some((_, Err(coupled))), _) => Ok(Value::Coupled(coupled.clone())),
            // A number for each row, whose rule is not known.
            (_, _, Batch::Dim { .. }) if is_of_host(tensor) => Err(Coupling::Written),
            (Value::Rows(_) | Value::Constant, Some((_, Ok(layout))), Batch::Dim { .. }) => {
                Ok(Value::Rows(*layout))
            }
            (Value::Rows(_), None, Batch::Dim { .. }) => Err(Coupling::OtherOrder),
            // One row, or some picked rows.
            (Value::Rows(_) | Value::Constant, _, Batch::Irregular) => Err(Coupling::TwoBatchDims),
            (Value::Rows(_), _, Batch::None) | (Value::Constant, _, Batch::Dim { .. }) => {
                Err(Coupling::PicksRows)
            }
            (Value::Constant, ..) if is_of_host(tensor) => written_alike(tensor),
            (value, ..) => Ok(value.clone()),
        }
    }

    /// Returns the value of a storage after a value was written into all or a part of it.
    pub(super) fn after(&self, result: &Tensor<'_>, value: Value) -> Result<Value, Coupling> {
        let held = self.held.get(&result.operand.storage);
        match held.filter(|_| result.operand.access == Access::Writes) {
            Some(held) if elements(result) < held.elements => {
                combined_with_part(&held.value, value, held.is_zeros)
            }
            _ => Ok(value),
        }
    }

    /// Records that a result was made of zeros.
    pub(super) fn note_zeros(&mut self, result: &Tensor<'_>) {
        let held = self.held.get_mut(&result.operand.storage);
        if let Some(held) = held.filter(|_| result.operand.access == Access::Makes) {
            held.is_zeros = true;
        }
    }

    /// Records that numbers of a result were computed, and are not only numbers of the data.
    pub(super) fn note_computed(&mut self, result: &Tensor<'_>) {
        if let Some(held) = self.held.get_mut(&result.operand.storage) {
            held.is_computed = true;
        }
    }

    /// False for numbers of the data, wherever they were moved.
    pub(super) fn is_computed(&self, tensor: &Tensor<'_>) -> bool {
        self.held.get(&tensor.operand.storage).is_some_and(|held| held.is_computed)
    }

    /// Records the value of a result.
    pub(super) fn note(&mut self, result: &Tensor<'_>, value: &Value) {
        let elements = elements(result);
        let made = || StorageValue {
            value: value.clone(),
            elements,
            is_zeros: false,
            is_computed: false,
            shapes: Vec::new(),
        };
        let held = self.held.entry(result.operand.storage).or_insert_with(made);
        held.elements = held.elements.max(elements);
        if result.operand.access == Access::Writes {
            held.value = written(&held.value, value);
            held.is_zeros = false;
        }
        match value {
            Value::Rows(layout) => held.lies(result, *layout),
            Value::Coupled(coupled) => held.is_seen(result, Err(coupled.clone())),
            Value::Constant | Value::Written | Value::Aggregate(_) => {}
        }
    }

    /// Returns the value of a tensor from before the forward: a shape that grows with the rows is data.
    fn unseen(&self, tensor: &Tensor<'_>) -> Result<Value, Coupling> {
        match tensor.batch {
            Batch::None if is_of_host(tensor) => written_alike(tensor),
            Batch::Dim { .. } if is_of_host(tensor) => Err(Coupling::Written),
            Batch::None => Ok(Value::Constant),
            Batch::Dim { .. } if self.is_cut => Err(Coupling::PicksRows),
            Batch::Dim { .. } => Ok(Value::Rows(Layout::PLAIN)),
            Batch::Irregular => Err(Coupling::TwoBatchDims),
        }
    }
}

fn is_of_host(tensor: &Tensor<'_>) -> bool {
    tensor.operand.written_by_host.is_some()
}

/// Returns the value of numbers that the program wrote itself.
fn written_alike(tensor: &Tensor<'_>) -> Result<Value, Coupling> {
    if tensor.differs_by_host { Err(Coupling::WrittenAnew) } else { Ok(Value::Written) }
}

impl StorageValue {
    fn lies(&mut self, result: &Tensor<'_>, layout: Layout) {
        if result.operand.access == Access::Writes {
            for (_, held) in self.shapes.iter_mut().filter(|(_, held)| *held == Ok(Layout::ANY)) {
                *held = Ok(layout);
            }
        }
        self.is_seen(result, Ok(layout));
    }

    fn is_seen(&mut self, result: &Tensor<'_>, layout: Result<Layout, Coupled>) {
        match self.shapes.iter_mut().find(|(shape, _)| *shape == result.operand.shape) {
            None => self.shapes.push((result.operand.shape.clone(), layout)),
            // Two views of one shape whose rows lie differently cannot be distinguished.
            Some((_, known)) => match (&known, layout) {
                (Ok(one), Ok(other)) => *known = Ok(one.meets(other).unwrap_or(Layout::UNKNOWN)),
                (_, layout @ Err(_)) => *known = layout,
                (Err(_), Ok(_)) => {}
            },
        }
    }
}

fn elements(tensor: &Tensor<'_>) -> u64 {
    tensor.operand.shape.iter().product()
}

/// Returns the value of a storage after a value was written into it. Rows stay rows, and couplings stay.
fn written(before: &Value, value: &Value) -> Value {
    match (before, value) {
        (Value::Coupled(_), _) => before.clone(),
        (_, Value::Coupled(_)) => value.clone(),
        (Value::Rows(_), _) | (Value::Aggregate(_), Value::Rows(_)) => before.clone(),
        _ => value.clone(),
    }
}

/// Returns the value of a storage after a part of it was overwritten.
fn combined_with_part(before: &Value, value: Value, is_zeros: bool) -> Result<Value, Coupling> {
    match (before, &value) {
        (Value::Constant, Value::Aggregate(Combined::Sum)) if is_zeros => Ok(value),
        (Value::Aggregate(_), Value::Written) | (Value::Written, Value::Aggregate(_)) => {
            Err(Coupling::Written)
        }
        (Value::Aggregate(one), Value::Aggregate(other)) if one != other => Err(Coupling::SumWithMean),
        (Value::Aggregate(Combined::Sum), Value::Constant)
        | (Value::Constant, Value::Aggregate(Combined::Sum)) => Err(Coupling::ConstantInSum),
        (Value::Aggregate(_) | Value::Written, Value::Constant) => Ok(before.clone()),
        _ => Ok(value),
    }
}
