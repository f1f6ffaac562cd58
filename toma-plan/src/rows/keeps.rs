//! Results that calls compute from rows: rows again, an aggregate, or a coupling.

use toma_trace::Access;
use toma_trace::operators::{RowRule, window_dims};

use super::rules::{Input, Numbers, RowCall, is_training};
use super::tensors::{Batch, Tensor};
use super::values::{Layout, Value};
use super::{Combined, Coupling};

/// Rows that a call takes.
#[derive(Clone, Copy)]
struct Taken<'a> {
    tensor: &'a Tensor<'a>,
    layout: Layout,
    dim: usize,
    factor: u64,
    /// Index among the tensors that the call takes.
    at: usize,
}

impl Taken<'_> {
    fn shape(&self) -> &[u64] {
        &self.tensor.operand.shape
    }

    fn end_distance(&self) -> usize {
        self.shape().len() - self.dim
    }

    /// Number of elements between a row and the next, over all dimensions before.
    fn outer(&self) -> u64 {
        self.shape()[..self.dim].iter().product::<u64>() * self.layout.merged()
    }
}

impl RowCall<'_> {
    /// Returns the value of a result, if the call takes rows.
    pub(super) fn of_rows(&self, rule: RowRule, result: &Tensor<'_>) -> Result<Value, Coupling> {
        if self.inputs.iter().any(|input| matches!(input.value, Value::Aggregate(_))) {
            return Err(Coupling::RowsWithAggregate);
        }
        if !matches!(self.numbers, Numbers::None | Numbers::Same) {
            return Err(Coupling::Number);
        }
        let takes_own = self.inputs.iter().any(|input| input.value == Value::Written);
        let is_scaled = self.numbers == Numbers::Same && matches!(self.name, "mul" | "div");
        if self.has_read && (takes_own || is_scaled) {
            return Err(Coupling::ReadNumber);
        }
        let rows = self.taken()?;
        match rule {
            RowRule::ReadsNumber => Ok(Value::Constant),
            RowRule::Sums | RowRule::Averages | RowRule::AlongDim => self.reduced(rule, &rows, result),
            RowRule::Loss | RowRule::ClassLoss => self.loss(rule, &rows, result),
            _ => match result.batch {
                Batch::Dim { dim, factor } => {
                    let layout = self.kept(rule, &rows, (dim, factor), result)?;
                    Ok(Value::Rows(self.ordered(rule, layout, result)))
                }
                Batch::Irregular if matches!(rule, RowRule::Moves | RowRule::Joins) => {
                    Err(Coupling::AlongBatch)
                }
                Batch::Irregular => Err(Coupling::TwoBatchDims),
                Batch::None if matches!(rule, RowRule::Moves | RowRule::PicksAlongDim) => {
                    Err(Coupling::PicksRows)
                }
                Batch::None => Err(Coupling::OtherAggregate),
            },
        }
    }

    /// Returns the layout of a result. Elements that were equal or random may differ from now on, by a constant with
    /// several elements or by their places.
    fn ordered(&self, rule: RowRule, layout: Layout, result: &Tensor<'_>) -> Layout {
        // A write to a part makes it differ from the rest from now on.
        let may_write_part = result.operand.access == Access::Writes;
        let is_list = |input: &Input<'_>| {
            !matches!(input.value, Value::Rows(_)) && input.tensor.operand.shape.iter().product::<u64>() > 1
        };
        let stays = match rule {
            RowRule::Elementwise => !self.inputs.iter().any(is_list),
            RowRule::Moves => !matches!(self.name, "tril" | "triu" | "constant_pad_nd"),
            RowRule::Reshapes | RowRule::Spreads => true,
            _ => false,
        };
        if layout == Layout::ANY && (may_write_part || !stays) { Layout::PLAIN } else { layout }
    }

    /// Returns all rows that the call takes, at least one.
    fn taken(&self) -> Result<Vec<Taken<'_>>, Coupling> {
        let rows = self.inputs.iter().enumerate().filter_map(|(at, input)| {
            let (Value::Rows(layout), Batch::Dim { dim, factor }) = (&input.value, input.tensor.batch) else {
                return None;
            };
            Some(Taken { tensor: input.tensor, layout: *layout, dim, factor, at })
        });
        let rows: Vec<_> = rows.collect();
        let is_known = rows.iter().all(|taken| taken.layout != Layout::UNKNOWN);
        if is_known && !rows.is_empty() { Ok(rows) } else { Err(Coupling::OtherOrder) }
    }

    /// Returns the layout of a result that has rows, too.
    fn kept(
        &self,
        rule: RowRule,
        rows: &[Taken<'_>],
        (dim, factor): (usize, u64),
        result: &Tensor<'_>,
    ) -> Result<Layout, Coupling> {
        let first = rows[0];
        let from_end = result.operand.shape.len() - dim;
        let is_same = |taken: &Taken<'_>| taken.dim == dim && taken.factor == factor;
        let all_same = || if rows.iter().all(is_same) { met(rows) } else { Err(Coupling::OtherOrder) };
        let only_first = || rows.len() == 1 && first.at == 0;
        match rule {
            RowRule::Elementwise => aligned(rows, from_end, factor),
            RowRule::Reshapes => reshaped(first, result, (dim, factor)),
            RowRule::Moves => self.moved(first, factor),
            RowRule::Spreads if first.factor == factor => Ok(first.layout),
            RowRule::Joins => self.joined(rows, dim, factor, result),
            RowRule::Product => self.product(rows, (dim, factor, from_end)),
            RowRule::BatchProduct => self.batch_product(rows, (dim, factor, from_end)),
            RowRule::Attention if first.dim > 1 => Err(Coupling::AlongBatch),
            RowRule::Attention => all_same(),
            RowRule::Convolution if !only_first() => Err(Coupling::Unknown),
            RowRule::Convolution if first.dim > 0 => Err(Coupling::AlongBatch),
            RowRule::BatchNorm | RowRule::Convolution if is_same(&first) => Ok(first.layout),
            RowRule::Norm if self.results.iter().any(|result| result.batch == Batch::None) => {
                Err(Coupling::AlongBatch)
            }
            RowRule::Norm if only_first() && first.dim == dim => Ok(first.layout),
            RowRule::Window => {
                let dims = window_dims(self.name).unwrap_or(usize::MAX);
                if from_end <= dims { Err(Coupling::AlongBatch) } else { all_same() }
            }
            RowRule::Lookup if self.attribute("scale_grad_by_freq") == Some(&[1]) => {
                Err(Coupling::RowsWithAggregate)
            }
            RowRule::Lookup if rows.len() == 1 && first.at == 1 && is_same(&first) => Ok(first.layout),
            RowRule::PicksAlongDim => self.picked(rows, factor),
            RowRule::Selects => Ok(selected(rows, factor)?),
            // The output of every time step, or the state after the last.
            RowRule::Recurrent if first.dim == 1 && from_end == 2 => met(rows),
            RowRule::Recurrent => Err(Coupling::AlongBatch),
            RowRule::Cell if dim == 0 => all_same(),
            _ => Err(Coupling::Unknown),
        }
    }

    /// Returns the layout after dimensions change places or are cut; the batch dimension must not be cut.
    fn moved(&self, first: Taken<'_>, factor: u64) -> Result<Layout, Coupling> {
        let last = match self.name {
            "tril" | "triu" => 2,
            "pixel_shuffle" => 3,
            _ => 0,
        };
        let rank = first.shape().len();
        let is_of = |name| {
            let dim = self.attribute(name).and_then(|dims| from_start(*dims.first()?, rank));
            dim.is_none_or(|dim| dim == first.dim)
        };
        // Two numbers for each dimension, from the last on.
        let pads = |pads: &[i64]| pads.chunks(2).nth(rank - 1 - first.dim).is_some_and(|pads| pads != [0, 0]);
        let is_along = matches!(self.name, "flip" | "roll") && self.runs_along(first)
            || self.name == "constant_pad_nd" && self.attribute("pad").is_none_or(pads)
            || self.name == "diagonal" && ["dim1", "dim2"].into_iter().any(is_of);
        if is_along || first.end_distance() <= last {
            Err(Coupling::AlongBatch)
        } else if first.factor == factor {
            Ok(first.layout)
        } else {
            Err(Coupling::PicksRows)
        }
    }

    fn joined(
        &self,
        rows: &[Taken<'_>],
        dim: usize,
        factor: u64,
        result: &Tensor<'_>,
    ) -> Result<Layout, Coupling> {
        let rank = result.operand.shape.len();
        let joins_before = self.name == "stack"
            && self.attribute("dim").and_then(|dims| from_start(*dims.first()?, rank)).unwrap_or(0) <= dim;
        let dim = dim - usize::from(joins_before && dim > 0);
        if rows.iter().any(|taken| taken.dim != dim || taken.factor != factor) {
            return Err(Coupling::AlongBatch);
        }
        met(rows)
    }

    /// Returns the layout of a matrix product: rows of the first matrix, or columns of the second.
    fn product(
        &self,
        rows: &[Taken<'_>],
        (dim, factor, from_end): (usize, u64, usize),
    ) -> Result<Layout, Coupling> {
        let left = usize::from(self.name.contains("add"));
        let has_bias_last = self.name.contains("linear");
        let layouts = rows.iter().map(|taken| {
            let is_bias = (left == 1 && taken.at == 0) || (has_bias_last && taken.at == 2);
            let keeps = match taken.at {
                _ if is_bias => taken.end_distance() == from_end,
                at if at == left => taken.end_distance() > 1 && taken.dim == dim,
                _ => !has_bias_last && taken.shape().len() == 2 && taken.dim == 1 && from_end == 1,
            };
            if keeps && taken.factor == factor { Ok(taken.layout) } else { Err(Coupling::OtherAggregate) }
        });
        let layouts: Result<Vec<_>, _> = layouts.collect();
        if rows.iter().filter(|taken| taken.at >= left && !has_bias_last).count() > 1 {
            return Err(Coupling::TwoBatchDims);
        }
        fold(layouts?)
    }

    fn batch_product(
        &self,
        rows: &[Taken<'_>],
        (dim, factor, from_end): (usize, u64, usize),
    ) -> Result<Layout, Coupling> {
        let left = usize::from(self.name.contains("add"));
        let keeps = |taken: &Taken<'_>| {
            taken.factor == factor
                && match taken.at {
                    at if at < left => taken.end_distance() == from_end,
                    _ if taken.dim == 0 => dim == 0,
                    at if at == left => taken.dim == 1 && dim == 1,
                    _ => taken.dim == 2 && dim == 2,
                }
        };
        if rows.iter().all(keeps) { met(rows) } else { Err(Coupling::OtherAggregate) }
    }

    /// Returns the layout of elements picked by index: of rows along another dimension, or of a constant for each row.
    fn picked(&self, rows: &[Taken<'_>], factor: u64) -> Result<Layout, Coupling> {
        // An index or a source without a batch is of some rows, from the first on.
        if self.name.starts_with("scatter") && rows.len() < self.inputs.len() {
            return Err(Coupling::PicksRows);
        }
        let takes_rows = rows[0].at == 0;
        let is_by_place = matches!(self.name, "index_select" | "index");
        let picks_rows = if takes_rows {
            is_by_place && rows.len() > 1 || self.has_dim() && self.runs_along(rows[0])
        } else {
            // Along another dimension, each index picks at its own position in the batch.
            !is_by_place && !self.runs_along(rows[0])
        };
        if picks_rows {
            return Err(Coupling::PicksRows);
        }
        let same =
            rows.iter().all(|taken| taken.factor == factor && (is_by_place || taken.dim == rows[0].dim));
        if same { met(rows) } else { Err(Coupling::PicksRows) }
    }

    fn has_dim(&self) -> bool {
        self.name != "index"
    }

    fn dims(&self) -> Option<&[i64]> {
        self.attribute("dim").or_else(|| self.attribute("dims")).filter(|dims| !dims.is_empty())
    }

    /// True if a `dim` is that of the batch. Without a `dim`, a call takes all dimensions.
    fn runs_along(&self, rows: Taken<'_>) -> bool {
        let rank = rows.shape().len();
        self.dims().is_none_or(|dims| dims.iter().any(|dim| from_start(*dim, rank) == Some(rows.dim)))
    }

    fn reduced(&self, rule: RowRule, rows: &[Taken<'_>], result: &Tensor<'_>) -> Result<Value, Coupling> {
        let [first] = rows else { return Err(Coupling::Unknown) };
        match (rule, result.batch) {
            _ if !self.runs_along(*first) => match result.batch {
                Batch::Dim { factor, .. } if factor == first.factor => {
                    Ok(Value::Rows(self.ordered(rule, first.layout, result)))
                }
                _ => Err(Coupling::OtherOrder),
            },
            (RowRule::Sums, Batch::None) => Ok(Value::Aggregate(Combined::Sum)),
            (RowRule::Averages, Batch::None) => Ok(Value::Aggregate(mean_of(*first))),
            (_, Batch::None) => Err(Coupling::OtherAggregate),
            _ => Err(Coupling::AlongBatch),
        }
    }

    fn loss(&self, rule: RowRule, rows: &[Taken<'_>], result: &Tensor<'_>) -> Result<Value, Coupling> {
        let first = rows[0];
        let layout = if rule == RowRule::ClassLoss || self.name.starts_with("multi") {
            let is_first = |taken: &Taken<'_>| taken.dim == 0 && taken.factor == first.factor;
            if rows.iter().all(is_first) { met(rows) } else { Err(Coupling::AlongBatch) }
        } else {
            aligned(rows, first.end_distance(), first.factor)
        };
        let (layout, reduction) = (layout?, self.attribute("reduction").unwrap_or(&[1]));
        match (result.batch, reduction) {
            (Batch::Dim { .. }, _) => Ok(Value::Rows(layout)),
            (_, [2]) => Ok(Value::Aggregate(Combined::Sum)),
            (_, [1]) if rule == RowRule::ClassLoss => self.class_mean(rows).map(Value::Aggregate),
            (_, [1]) => Ok(Value::Aggregate(mean_of(Taken { layout, ..first }))),
            _ => Err(Coupling::OtherAggregate),
        }
    }

    /// Returns how a loss over classes is averaged: by counts if it has weights, if a mask has selected its rows, or if it
    /// ignores another class than the default -100, which data need not contain, but labels that were computed may.
    fn class_mean(&self, rows: &[Taken<'_>]) -> Result<Combined, Coupling> {
        let has_weights = self.inputs.len() > rows.len();
        let ignores = self.attribute("ignore_index").is_some_and(|index| index != [-100]);
        let is_selected = rows.iter().any(|taken| taken.layout.mask.is_some());
        let has_own_labels = self.inputs.get(1).is_some_and(|labels| labels.is_computed);
        if has_weights || ignores || is_selected {
            Ok(Combined::Counted)
        } else if has_own_labels {
            Err(Coupling::OwnLabels)
        } else {
            Ok(Combined::MeanOrCounted)
        }
    }
}

fn mean_of(rows: Taken<'_>) -> Combined {
    if rows.layout.mask.is_some() { Combined::Counted } else { Combined::Mean }
}

fn from_start(dim: i64, rank: usize) -> Option<usize> {
    usize::try_from(if dim < 0 { dim.checked_add_unsigned(rank as u64)? } else { dim }).ok()
}

/// Returns the layout of rows that meet element by element.
fn aligned(rows: &[Taken<'_>], from_end: usize, factor: u64) -> Result<Layout, Coupling> {
    let is_there = |taken: &Taken<'_>| taken.end_distance() == from_end && taken.factor == factor;
    if rows.iter().all(is_there) { met(rows) } else { Err(Coupling::OtherOrder) }
}

fn met(rows: &[Taken<'_>]) -> Result<Layout, Coupling> {
    fold(rows.iter().map(|taken| taken.layout))
}

fn fold(layouts: impl IntoIterator<Item = Layout>) -> Result<Layout, Coupling> {
    let mut layouts = layouts.into_iter();
    layouts.try_fold(Layout::ANY, Layout::meets).ok_or(Coupling::OtherOrder)
}

/// Returns the layout of the same elements in another shape. As many elements as before lie before a row.
fn reshaped(rows: Taken<'_>, result: &Tensor<'_>, (dim, factor): (usize, u64)) -> Result<Layout, Coupling> {
    if rows.layout == Layout::ANY {
        return Ok(Layout::ANY);
    }
    let before: u64 = result.operand.shape[..dim].iter().product();
    let merged = rows.outer().checked_div(before).unwrap_or(0);
    let fits = merged > 0 && merged * before == rows.outer() && factor.is_multiple_of(merged);
    if fits { Ok(Layout { merged, ..rows.layout }) } else { Err(Coupling::OtherOrder) }
}

/// Returns the layout of the selected elements of all rows, one after the other.
fn selected(rows: &[Taken<'_>], factor: u64) -> Result<Layout, Coupling> {
    let [values, mask] = rows else { return Err(Coupling::Unknown) };
    let is_same = values.end_distance() == mask.end_distance() && values.factor == mask.factor;
    let layout = values.layout.meets(mask.layout).filter(|layout| is_same && layout.mask.is_none());
    let merged = Taken { layout: layout.ok_or(Coupling::OtherOrder)?, ..*values }.outer();
    if !factor.is_multiple_of(merged) {
        return Err(Coupling::OtherOrder);
    }
    Ok(Layout { merged, mask: Some(mask.tensor.operand.storage) })
}

impl RowCall<'_> {
    /// True if the call normalizes rows by statistics of the batch.
    pub(super) fn takes_batch_statistics(&self) -> bool {
        let is_over_batch =
            |input: &Input<'_>| matches!(input.tensor.batch, Batch::Dim { dim, .. } if dim != 1);
        is_training(self.operators[1]) && self.inputs.first().is_some_and(is_over_batch)
    }
}
