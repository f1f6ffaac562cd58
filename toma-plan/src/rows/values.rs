//! What tensors are made of, storage by storage.

use std::collections::BTreeMap;

use toma_trace::{Access, StorageId};

use super::tensors::{Batch, Tensor};
use super::{Combined, Coupled, Coupling};

/// What a tensor is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Of no rows.
    Constant,
    /// Numbers of the program's own, which may be of rows that it has read.
    Written,
    /// A row for each row of the data.
    Rows(Layout),
    /// All rows together; never [`Combined::Rows`].
    Aggregate(Combined),
    /// Of rows that are coupled.
    Coupled(Coupled),
}

/// Where the rows lie in their dimension of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// How many elements of dimensions before the batch are merged into its dimension; 0 where all elements are
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

    /// Rows that meet no others, not even of the same tensor.
    pub(super) const UNKNOWN: Self = Self { merged: u64::MAX, mask: None };

    /// The layout where elements of both meet.
    pub(super) fn meets(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::ANY, met) | (met, Self::ANY) => Some(met),
            _ => (self == other && self != Self::UNKNOWN).then_some(self),
        }
    }

    /// For operators to which order matters.
    pub(super) fn merged(self) -> u64 {
        self.merged.max(1)
    }
}

/// What a storage holds, and how its rows lie in each of its shapes: views of one storage differ by their shapes.
#[derive(Clone, Debug)]
struct Held {
    value: Value,
    shapes: Vec<(Vec<u64>, Result<Layout, Coupled>)>,
}

/// What is known of the storages when an operator begins.
#[derive(Debug, Default)]
pub(super) struct Values(BTreeMap<StorageId, Held>);

impl Values {
    /// The same, and notes a tensor from before the forward.
    pub(super) fn taken(&mut self, tensor: &Tensor<'_>) -> Result<Value, Coupling> {
        let value = self.of(tensor)?;
        if !self.0.contains_key(&tensor.operand.storage) {
            self.note(tensor, &value);
        }
        Ok(value)
    }

    /// What a tensor is made of, or how it couples rows.
    pub(super) fn of(&self, tensor: &Tensor<'_>) -> Result<Value, Coupling> {
        let Some(held) = self.0.get(&tensor.operand.storage) else { return unseen(tensor) };
        let seen = held.shapes.iter().find(|(shape, _)| *shape == tensor.operand.shape);
        match (&held.value, seen, tensor.batch) {
            (_, Some((_, Err(coupled))), _) => Ok(Value::Coupled(coupled.clone())),
            (Value::Rows(_) | Value::Constant, Some((_, Ok(layout))), Batch::Dim { .. }) => {
                Ok(Value::Rows(*layout))
            }
            (Value::Rows(_), None, Batch::Dim { .. }) => Err(Coupling::OtherOrder),
            // One row, or some that are picked.
            (Value::Rows(_) | Value::Constant, _, Batch::Irregular) => Err(Coupling::TwoBatchDims),
            (Value::Rows(_), _, Batch::None) | (Value::Constant, _, Batch::Dim { .. }) => {
                Err(Coupling::PicksRows)
            }
            (Value::Constant, ..) if tensor.operand.is_written_by_host => Ok(Value::Written),
            (value, ..) => Ok(value.clone()),
        }
    }

    /// Notes what a result is made of.
    pub(super) fn note(&mut self, result: &Tensor<'_>, value: &Value) {
        let made = || Held { value: value.clone(), shapes: Vec::new() };
        let held = self.0.entry(result.operand.storage).or_insert_with(made);
        if result.operand.access == Access::Writes {
            held.value = written(&held.value, value);
        }
        match value {
            Value::Rows(layout) => held.lies(result, *layout),
            Value::Coupled(coupled) => held.is_seen(result, Err(coupled.clone())),
            Value::Constant | Value::Written | Value::Aggregate(_) => {}
        }
    }
}

impl Held {
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
            // Two views of one shape whose rows lie differently cannot be told apart.
            Some((_, known)) => match (&known, layout) {
                (Ok(one), Ok(other)) => *known = Ok(one.meets(other).unwrap_or(Layout::UNKNOWN)),
                (_, layout @ Err(_)) => *known = layout,
                (Err(_), Ok(_)) => {}
            },
        }
    }
}

/// A tensor from before the forward: a shape that grows with the rows is that of data.
fn unseen(tensor: &Tensor<'_>) -> Result<Value, Coupling> {
    match tensor.batch {
        Batch::None if tensor.operand.is_written_by_host => Ok(Value::Written),
        Batch::None => Ok(Value::Constant),
        Batch::Dim { .. } => Ok(Value::Rows(Layout::PLAIN)),
        Batch::Irregular => Err(Coupling::TwoBatchDims),
    }
}

/// What a storage holds once a value was written into all of it or a part.
fn written(before: &Value, value: &Value) -> Value {
    match (before, value) {
        (Value::Coupled(_), _) => before.clone(),
        (_, Value::Coupled(_))
        | (Value::Constant | Value::Written, _)
        | (Value::Aggregate(_), Value::Aggregate(_)) => value.clone(),
        _ => before.clone(),
    }
}
