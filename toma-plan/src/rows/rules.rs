//! Rules for the treatment of rows by operators.

use std::mem;

use toma_trace::operators::{RowRule, base_name, row_rule};
use toma_trace::{Access, Operator, OperatorId, ScopeKind, Tick, Trace};

use super::forward::adds_gradients;
use super::tensors::{Batch, Tensor, Twin};
use super::values::{Layout, Value, Values};
use super::{Combined, Coupled, Coupling, DATA, Rows};

/// Follows the rows from operator to operator.
#[derive(Debug)]
pub(super) struct Walk {
    values: Values,
    batch_statistics: Vec<OperatorId>,
    /// True if data are cut in scopes of their own: tensors that are cut elsewhere are no data.
    is_cut: bool,
    /// True if the program has read a number of the rows.
    has_read: bool,
    /// Tick at which the first backward begins.
    backward: Option<Tick>,
    /// True if a backward in the forward adds to gradients.
    adds_gradients: bool,
}

/// A call and its arguments.
pub(super) struct RowCall<'a> {
    pub(super) name: &'a str,
    pub(super) operators: [&'a Operator; 2],
    pub(super) inputs: Vec<Input<'a>>,
    pub(super) results: Vec<&'a Tensor<'a>>,
    pub(super) numbers: Numbers,
    /// True if constants may become rows here, because data are cut.
    cuts_data: bool,
    pub(super) has_read: bool,
}

pub(super) struct Input<'a> {
    pub(super) tensor: &'a Tensor<'a>,
    pub(super) value: Value,
    /// False for numbers of the data, wherever they were moved.
    pub(super) is_computed: bool,
}

/// Change of the numbers of a call with the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    None,
    Same,
    /// The one number grows with the rows.
    Grows,
    /// The one number is divided by the rows.
    Shrinks,
    Other,
}

impl Walk {
    pub(super) fn new(is_cut: bool, trace: &Trace) -> Self {
        let mut nodes = trace.scopes().filter(|(_, scope)| scope.label.kind == ScopeKind::Node);
        Self {
            values: Values::new(is_cut),
            batch_statistics: Vec::new(),
            is_cut,
            has_read: false,
            backward: nodes.next().map(|(_, node)| node.interval.begin),
            adds_gradients: adds_gradients(trace),
        }
    }

    pub(super) fn step(&mut self, twin: &Twin<'_>, trace: &Trace, sizes: [u32; 2]) {
        let operator = twin.operators[1];
        let name = base_name(&operator.name);
        let (is_data, reads) = (is_data(operator, trace), row_rule(name) == Some(RowRule::ReadsNumber));
        let results: Vec<_> = twin.tensors.iter().filter(|tensor| tensor.is_result()).collect();
        let inputs = match self.inputs(twin) {
            Ok(inputs) => inputs,
            Err(coupled) => {
                self.has_read |= reads;
                let value = Value::Coupled(coupled);
                return results.iter().for_each(|result| self.values.note(result, &value));
            }
        };
        let call = RowCall {
            name,
            operators: twin.operators,
            inputs,
            numbers: Numbers::of(twin.operators, sizes),
            cuts_data: is_data || !self.is_cut,
            has_read: self.has_read,
            results,
        };
        let values: Vec<_> = call.results.iter().map(|result| call.value(result)).collect();
        for (result, value) in call.results.iter().zip(values) {
            let value = value.and_then(|value| self.values.after(result, value));
            let value = value.unwrap_or_else(|coupling| Value::Coupled(twin.coupled(coupling)));
            self.values.note(result, &value);
            if matches!(name, "zeros" | "zeros_like" | "new_zeros") {
                self.values.note_zeros(result);
            }
        }
        if !is_data && !call.moves_data() {
            let made = call.results.iter().filter(|result| result.operand.access != Access::Views);
            made.for_each(|result| self.values.note_computed(result));
        }
        self.has_read |= reads && call.inputs.iter().any(|input| input.value != Value::Constant);
        self.batch_statistics.extend(call.takes_batch_statistics().then_some(twin.id));
    }

    /// Returns the arguments of a call, unless it or one of them is coupled.
    fn inputs<'a>(&mut self, twin: &'a Twin<'a>) -> Result<Vec<Input<'a>>, Coupled> {
        let operator = twin.operators[1];
        let inputs: Result<Vec<_>, _> = inputs(&twin.tensors).map(|tensor| self.input(tensor)).collect();
        if self.backward.is_some_and(|begin| begin < operator.interval.begin) {
            return Err(twin.coupled(Coupling::InnerBackward));
        }
        let mut inputs = inputs.map_err(|coupling| twin.coupled(coupling))?;
        // In training, running statistics are written and not used. They want no gradient, and have a number for
        // each channel.
        if is_training(operator) {
            let is_used = |tensor: &Tensor<'_>| tensor.operand.wants_gradient || tensor.batch != Batch::None;
            let mut is_first = true;
            inputs.retain(|input| mem::take(&mut is_first) || is_used(input.tensor));
        }
        let coupled = inputs.iter().find_map(|input| match &input.value {
            Value::Coupled(coupled) => Some(coupled.clone()),
            _ => None,
        });
        coupled.map_or(Ok(inputs), Err)
    }

    fn input<'a>(&mut self, tensor: &'a Tensor<'a>) -> Result<Input<'a>, Coupling> {
        let is_computed = self.values.is_computed(tensor);
        Ok(Input { tensor, value: self.values.taken(tensor)?, is_computed })
    }

    /// Returns the verdict on the result: the argument of `last` if `takes`, else the result of `last`.
    pub(super) fn finish(self, last: Option<&Twin<'_>>, takes: bool) -> Rows {
        let result = last.and_then(|last| {
            let mut tensors = last.tensors.iter().filter(|tensor| takes != tensor.is_result());
            let wanted = tensors.clone().find(|tensor| tensor.operand.wants_gradient);
            Some((last, wanted.or_else(|| tensors.next())?))
        });
        let combined = match result {
            None => Ok(Combined::Mean),
            Some((last, _)) if self.adds_gradients => Err(last.coupled(Coupling::InnerBackward)),
            Some((last, tensor)) => self.combined(last, tensor),
        };
        Rows { combined, batch_statistics: self.batch_statistics }
    }

    fn combined(&self, last: &Twin<'_>, tensor: &Tensor<'_>) -> Result<Combined, Coupled> {
        let coupling = match self.values.of(tensor) {
            Ok(Value::Constant) => return Ok(Combined::Mean),
            Ok(Value::Aggregate(combined)) => return Ok(combined),
            Ok(Value::Coupled(coupled)) => return Err(coupled),
            Ok(Value::Rows(Layout { mask: None, .. })) if is_plain(tensor) => return Ok(Combined::Rows),
            Ok(Value::Rows(_)) => Coupling::OtherOrder,
            Ok(Value::Written) => Coupling::Written,
            Err(coupling) => coupling,
        };
        Err(last.coupled(coupling))
    }
}

/// True if the first dimension has one element for each row.
fn is_plain(tensor: &Tensor<'_>) -> bool {
    tensor.batch == Batch::Dim { dim: 0, factor: 1 }
}

/// Returns the tensors that a call takes. A written tensor is an argument, and may be a result, too.
fn inputs<'a>(tensors: &'a [Tensor<'a>]) -> impl Iterator<Item = &'a Tensor<'a>> {
    let is_new = |index: usize, tensor: &Tensor<'_>| match tensor.operand.access {
        Access::Reads => true,
        Access::Writes => !tensors[..index].iter().any(|earlier| {
            earlier.operand.access == Access::Writes && earlier.operand.storage == tensor.operand.storage
        }),
        Access::Makes | Access::Views => false,
    };
    tensors.iter().enumerate().filter(move |(index, tensor)| is_new(*index, tensor)).map(|(_, tensor)| tensor)
}

impl Numbers {
    fn of(operators: [&Operator; 2], sizes: [u32; 2]) -> Self {
        let [first, second] = operators.map(|operator| &operator.numbers);
        let change = |(one, other): (&toma_trace::Number, &toma_trace::Number)| {
            let (one, other) = (one.value(), other.value());
            let [small, large] = sizes.map(f64::from);
            if one.to_bits() == other.to_bits() {
                Self::Same
            } else if is_near(one * large, other * small) {
                Self::Grows
            } else if is_near(one * small, other * large) {
                Self::Shrinks
            } else {
                Self::Other
            }
        };
        let mut changes = first.iter().zip(second).map(change);
        let found = changes.clone().find(|change| *change != Self::Same);
        match (found, changes.next()) {
            _ if first.len() != second.len() => Self::Other,
            (None, None) => Self::None,
            (None, Some(_)) => Self::Same,
            (Some(change), _) if first.len() == 1 => change,
            (Some(_), _) => Self::Other,
        }
    }
}

/// True if two numbers are equal except for rounding.
pub(super) fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-6 * one.abs().max(other.abs())
}

/// True for an operator that cuts data.
pub(super) fn is_data(operator: &Operator, trace: &Trace) -> bool {
    operator.scope.is_some_and(|scope| trace[scope].label.name == DATA)
}

/// True for a batch norm that takes the statistics of the batch.
pub(super) fn is_training(operator: &Operator) -> bool {
    row_rule(base_name(&operator.name)) == Some(RowRule::BatchNorm)
        && attribute(operator, "training") != Some(&[0])
}

fn attribute<'a>(operator: &'a Operator, name: &str) -> Option<&'a [i64]> {
    operator.attributes.iter().find(|given| given.name == name).map(|given| &*given.values)
}

impl RowCall<'_> {
    /// Returns the value of a result.
    fn value(&self, result: &Tensor<'_>) -> Result<Value, Coupling> {
        let has = |is: fn(&Value) -> bool| self.inputs.iter().any(|input| is(&input.value));
        let rule = row_rule(self.name).or_else(|| {
            let is_pointwise = self.attribute("pointwise").is_some();
            is_pointwise.then_some(RowRule::Elementwise)
        });
        if self.takes_count(rule) {
            return Err(Coupling::Number);
        }
        if rule == Some(RowRule::Fills) {
            return self.filled(result);
        }
        if has(|value| matches!(value, Value::Rows(_))) {
            self.of_rows(rule.ok_or_else(|| self.unknown(result))?, result)
        } else if has(|value| matches!(value, Value::Aggregate(_))) {
            if let ("copy", [_, source]) = (self.name, &*self.inputs) {
                return Ok(source.value.clone());
            }
            self.of_aggregates(rule.ok_or(Coupling::ThroughAggregate)?).map(Value::Aggregate)
        } else {
            self.of_constants(rule, result)
        }
    }

    /// True if the results have numbers of the data, or numbers that are no ignored label.
    fn moves_data(&self) -> bool {
        let moves = match row_rule(self.name) {
            Some(RowRule::Reshapes) => true,
            Some(RowRule::Moves) => !matches!(self.name, "constant_pad_nd" | "tril" | "triu"),
            _ => match self.name {
                // No number of these is negative.
                "zeros" | "zeros_like" | "new_zeros" | "ones" | "ones_like" | "new_ones" | "argmax"
                | "argmin" => return true,
                name => matches!(name, "to" | "_to_copy" | "clone" | "contiguous"),
            },
        };
        moves && self.inputs.iter().all(|input| matches!(input.value, Value::Rows(_)) && !input.is_computed)
    }

    /// Returns the coupling that is certain for a call without a rule.
    fn unknown(&self, result: &Tensor<'_>) -> Coupling {
        let meets = self.inputs.iter().any(|input| matches!(input.value, Value::Aggregate(_)));
        match result.batch {
            _ if meets => Coupling::RowsWithAggregate,
            Batch::None => Coupling::OtherAggregate,
            Batch::Irregular => Coupling::TwoBatchDims,
            Batch::Dim { .. } => Coupling::Unknown,
        }
    }

    /// True if the call takes an integer that changes with the rows. Those that only set the shape of the result do not
    /// count, because its shape is known, nor do those that are also numbers.
    fn takes_count(&self, rule: Option<RowRule>) -> bool {
        const OF_SHAPES: [&str; 7] = ["size", "shape", "output_size", "repeats", "length", "end", "N"];
        let [small, large] = self.operators.map(|operator| &operator.attributes);
        // A stride of a window is no shape.
        let has_strides = matches!(rule, Some(RowRule::Reshapes | RowRule::Fills));
        let is_same = |(one, other): (&toma_trace::Attribute, &toma_trace::Attribute)| {
            let is_number = self.operators[0].numbers.iter().any(|number| number.name == one.name);
            let is_shape = OF_SHAPES.contains(&&*one.name) || has_strides && one.name == "stride";
            one.values == other.values || is_number || is_shape
        };
        small.len() != large.len() || !small.iter().zip(large).all(is_same)
    }

    pub(super) fn attribute(&self, name: &str) -> Option<&[i64]> {
        attribute(self.operators[1], name)
    }

    fn filled(&self, result: &Tensor<'_>) -> Result<Value, Coupling> {
        match result.batch {
            _ if matches!(self.numbers, Numbers::Grows | Numbers::Shrinks | Numbers::Other) => {
                Err(Coupling::Number)
            }
            Batch::None => Ok(Value::Constant),
            Batch::Dim { .. } => Ok(Value::Rows(Layout::ANY)),
            Batch::Irregular => Err(Coupling::TwoBatchDims),
        }
    }

    fn of_constants(&self, rule: Option<RowRule>, result: &Tensor<'_>) -> Result<Value, Coupling> {
        let is_written = self.inputs.iter().any(|input| input.value == Value::Written);
        match result.batch {
            Batch::None | Batch::Dim { .. } if !matches!(self.numbers, Numbers::None | Numbers::Same) => {
                Err(Coupling::Number)
            }
            Batch::None if is_written => Ok(Value::Written),
            Batch::None => Ok(Value::Constant),
            Batch::Dim { .. } if is_written => Err(Coupling::Written),
            Batch::Dim { factor: 1, .. } if rule == Some(RowRule::Spreads) => Ok(Value::Rows(Layout::PLAIN)),
            Batch::Dim { .. } if rule == Some(RowRule::Spreads) && self.name == "repeat" => {
                Ok(Value::Rows(Layout::PLAIN))
            }
            Batch::Dim { factor: 1, dim: 0 } if self.cuts_data && rule == Some(RowRule::Moves) => {
                Ok(Value::Rows(Layout::PLAIN))
            }
            Batch::Dim { .. } => Err(Coupling::PicksRows),
            Batch::Irregular => Err(Coupling::TwoBatchDims),
        }
    }
}
