//! Results that calls compute from aggregates alone.

use toma_trace::operators::RowRule;

use super::rules::{Input, Numbers, RowCall};
use super::tensors::Batch;
use super::values::Value;
use super::{Combined, Coupling};

impl RowCall<'_> {
    /// Combines aggregates: sums, means, and their products with constants.
    pub(super) fn of_aggregates(&self, rule: RowRule) -> Result<Combined, Coupling> {
        let aggregates = || {
            self.inputs.iter().filter_map(|input| match input.value {
                Value::Aggregate(combined) => Some(combined),
                _ => None,
            })
        };
        let first = aggregates().next().ok_or(Coupling::ThroughAggregate)?;
        if self.inputs.iter().any(|input| input.value == Value::Written) {
            return Err(Coupling::Written);
        }
        match (rule, self.name) {
            (RowRule::Elementwise, "mul" | "div") => self.scaled(first),
            (RowRule::Elementwise, "add" | "sub" | "rsub") => {
                let is_alone = aggregates().count() < 2;
                // The constant is added once for each row.
                if is_alone && (self.numbers, first) == (Numbers::Grows, Combined::Sum) {
                    return Ok(first);
                }
                self.fixed_numbers()?;
                let sum = aggregates().try_fold(first, added).ok_or(Coupling::SumWithMean)?;
                if is_alone && sum == Combined::Sum { Err(Coupling::ConstantInSum) } else { Ok(sum) }
            }
            (
                RowRule::Elementwise,
                "neg" | "to" | "_to_copy" | "copy" | "clone" | "contiguous" | "alias" | "detach"
                | "lift_fresh",
            )
            | (RowRule::Reshapes | RowRule::Moves | RowRule::Sums | RowRule::Averages, _) => Ok(first),
            (RowRule::Joins, _) => {
                let same = aggregates().all(|combined| combined == first);
                let is_alone = aggregates().count() < self.inputs.len();
                if !same {
                    Err(Coupling::SumWithMean)
                } else if is_alone && first == Combined::Sum {
                    Err(Coupling::ConstantInSum)
                } else {
                    Ok(first)
                }
            }
            (RowRule::Spreads, _) if self.results.iter().all(|result| result.batch == Batch::None) => {
                Ok(first)
            }
            (RowRule::Spreads, _) => Err(Coupling::RowsWithAggregate),
            _ => Err(Coupling::ThroughAggregate),
        }
    }

    fn fixed_numbers(&self) -> Result<(), Coupling> {
        match self.numbers {
            Numbers::Same if self.has_read => Err(Coupling::ReadNumber),
            Numbers::None | Numbers::Same => Ok(()),
            Numbers::Grows | Numbers::Shrinks | Numbers::Other => Err(Coupling::Number),
        }
    }

    /// Combines a product or quotient: a sum that is divided by the number of rows is a mean.
    fn scaled(&self, first: Combined) -> Result<Combined, Coupling> {
        let is_quotient = self.name == "div";
        let of = |at: usize| self.inputs.get(at).map(|input: &Input<'_>| &input.value);
        let is_learned =
            |at: usize| self.inputs.get(at).is_some_and(|input| input.tensor.operand.wants_gradient);
        match (of(0), of(1)) {
            (Some(Value::Aggregate(one)), Some(Value::Aggregate(other))) if is_quotient && one == other => {
                // The gradient by a count that is learned depends on the mean of all rows.
                return if matches!(one, Combined::Sum | Combined::Mean) && !is_learned(1) {
                    Ok(Combined::Counted)
                } else {
                    Err(Coupling::ThroughAggregate)
                };
            }
            (_, Some(Value::Aggregate(_))) if is_quotient => return Err(Coupling::ThroughAggregate),
            (Some(Value::Aggregate(_)), Some(Value::Aggregate(_))) => return Err(Coupling::ThroughAggregate),
            _ => {}
        }
        match (self.numbers, is_quotient, first) {
            (Numbers::None | Numbers::Same, ..) => self.fixed_numbers().map(|()| first),
            (Numbers::Shrinks, false, Combined::Sum) | (Numbers::Grows, true, Combined::Sum) => {
                Ok(Combined::Mean)
            }
            (Numbers::Grows, false, Combined::Mean | Combined::MeanOrCounted) => Ok(Combined::Sum),
            _ => Err(Coupling::Number),
        }
    }
}

/// Returns the combination of the sum of two aggregates.
fn added(one: Combined, other: Combined) -> Option<Combined> {
    use Combined::{Counted, Mean, MeanOrCounted};
    match (one, other) {
        (MeanOrCounted, met @ (Mean | Counted)) | (met @ (Mean | Counted), MeanOrCounted) => Some(met),
        _ => (one == other).then_some(one),
    }
}
