//! Which operators couple rows, by their names and dimensions.

use toma_trace::operators::{
    self, ADDS, ALONG_DIM, BATCH_NORM, CONVOLUTION, LINEAR, LOSS, NORM, PICKS_ROWS, SUM, WEIGHTED, base_name,
    window_dims,
};
use toma_trace::{Access, Operator};

use super::tensors::Tensor;
use super::{Coupling, Kind};

/// A call of an operator.
#[derive(Debug)]
pub(super) struct Call<'a> {
    operator: &'a Operator,
    inputs: Vec<Input<'a>>,
    /// The kinds of those results that count: those with gradients, if there are any.
    results: Vec<Result>,
    /// Whether a result is no rows, also of those without gradients.
    makes_others: bool,
}

/// A tensor that an operator takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input<'a> {
    pub(super) kind: Kind,
    /// The dimension of the batch, if it is rows.
    pub(super) batch: Option<usize>,
    pub(super) shape: &'a [u64],
}

#[derive(Clone, Copy, Debug)]
struct Result {
    kind: Kind,
    batch_dims: usize,
    is_view: bool,
}

impl<'a> Call<'a> {
    pub(super) fn new(operator: &'a Operator, inputs: Vec<Input<'a>>, tensors: &[Tensor<'_>]) -> Self {
        let results = || tensors.iter().filter(|tensor| tensor.is_result());
        let makes_others = results().any(|tensor| tensor.batch.is_empty());
        let mut call = Self { operator, inputs, results: Vec::new(), makes_others };
        let wanted = results().any(|tensor| tensor.operand.wants_gradient);
        let counted = results().filter(|tensor| tensor.operand.wants_gradient == wanted);
        call.results = counted.map(|tensor| call.result(tensor)).collect();
        call
    }

    fn result(&self, tensor: &Tensor<'_>) -> Result {
        let is_view = tensor.operand.access == Access::Views;
        Result { kind: self.kind_of(tensor), batch_dims: tensor.batch.len(), is_view }
    }

    /// What a result is.
    pub(super) fn kind_of(&self, result: &Tensor<'_>) -> Kind {
        match self.highest() {
            Kind::Aggregate => Kind::Aggregate,
            _ if !result.batch.is_empty() => Kind::Rows,
            highest => highest.min(Kind::Aggregate),
        }
    }

    fn highest(&self) -> Kind {
        self.inputs.iter().map(|input| input.kind).max().unwrap_or(Kind::Constant)
    }

    pub(super) fn name(&self) -> &str {
        &self.operator.name
    }

    fn has(&self, flags: u32) -> bool {
        operators::named(self.name()).has(flags)
    }

    fn count(&self, kind: Kind) -> usize {
        self.inputs.iter().filter(|input| input.kind == kind).count()
    }

    /// How the call couples rows, if it does.
    pub(super) fn coupling(&self) -> Option<Coupling> {
        let aggregates = self.results.iter().any(|result| result.kind == Kind::Aggregate);
        if self.results.iter().any(|result| result.batch_dims > 1) {
            return Some(Coupling::TwoBatchDims);
        }
        match self.highest() {
            Kind::Constant => None,
            Kind::Aggregate => self.of_aggregates(),
            // What it keeps of earlier batches is an aggregate, too.
            Kind::Rows if self.has(BATCH_NORM) => None,
            Kind::Rows if self.count(Kind::Aggregate) > 0 => Some(Coupling::RowsWithAggregate),
            Kind::Rows if self.has(ALONG_DIM) && self.runs_along_batch() => Some(Coupling::AlongBatch),
            Kind::Rows if self.has(NORM) && self.makes_others => Some(Coupling::AlongBatch),
            Kind::Rows if self.looks_along_batch() => Some(Coupling::AlongBatch),
            Kind::Rows if self.has(PICKS_ROWS) && self.picks_rows() => Some(Coupling::PicksRows),
            Kind::Rows if aggregates && self.divides_by_weights() => Some(Coupling::MaskedMean),
            Kind::Rows if !aggregates || self.has(SUM) || self.has(LOSS) => None,
            Kind::Rows if self.results.iter().any(|result| result.is_view) => Some(Coupling::PicksRows),
            Kind::Rows => Some(Coupling::OtherAggregate),
        }
    }

    /// Of scores, labels and weights; a sum does not divide.
    fn divides_by_weights(&self) -> bool {
        self.has(WEIGHTED) && self.inputs.len() > 2 && !self.has_attribute("reduction", &[2])
    }

    fn has_attribute(&self, name: &str, values: &[i64]) -> bool {
        self.operator.attributes.iter().any(|given| given.name == name && given.values == values)
    }

    /// Aggregates and constants alone. What an aggregate is divided by must be a constant.
    fn of_aggregates(&self) -> Option<Coupling> {
        let divisor = self.inputs.get(1).map_or(Kind::Constant, |input| input.kind);
        let dividend = self.inputs.first().map_or(Kind::Constant, |input| input.kind);
        match base_name(self.name()) {
            "div" if divisor == Kind::Constant => None,
            "div" if dividend == Kind::Aggregate => Some(Coupling::MaskedMean),
            "mul" if self.count(Kind::Aggregate) == 1 => None,
            _ if self.has(LINEAR) => None,
            _ => Some(Coupling::ThroughAggregate),
        }
    }

    /// Whether a `dim` is that of the batch. Without one, or with an empty list, a call takes all.
    fn runs_along_batch(&self) -> bool {
        let Some(rows) = self.inputs.iter().find(|input| input.batch.is_some()) else { return false };
        let mut given =
            self.operator.attributes.iter().filter(|given| given.name == "dim" || given.name == "dims");
        let Some(dims) = given.next().filter(|given| !given.values.is_empty()) else { return true };
        let from_start =
            |dim: &i64| if *dim < 0 { dim.checked_add_unsigned(rows.shape.len() as u64) } else { Some(*dim) };
        dims.values.iter().filter_map(from_start).any(|dim| usize::try_from(dim).ok() == rows.batch)
    }

    /// Whether results see neighbors along the batch.
    fn looks_along_batch(&self) -> bool {
        let Some(Input { batch: Some(batch), shape, .. }) = self.inputs.first() else { return false };
        if self.has(CONVOLUTION) {
            let kernel = self.inputs.get(1).and_then(|weight| weight.shape.get(*batch));
            return *batch > 1 && kernel.is_some_and(|width| *width > 1);
        }
        window_dims(self.name()).is_some_and(|dims| batch + dims >= shape.len())
    }

    /// A constant may be asked for its rows by rows: an embedding is no coupling.
    fn picks_rows(&self) -> bool {
        self.inputs.first().is_some_and(|input| input.kind == Kind::Rows) && self.runs_along_batch()
    }

    /// Whether a constant, or a number that is no tensor, is added to an aggregate.
    pub(super) fn adds_constant(&self) -> bool {
        self.has(ADDS) && self.highest() == Kind::Aggregate && self.count(Kind::Aggregate) < 2
    }

    /// Whether it makes a sum of rows.
    pub(super) fn sums(&self) -> bool {
        let is_sum = matches!(base_name(self.name()), "sum" | "nansum");
        let is_summed_loss = self.has(LOSS) && self.has_attribute("reduction", &[2]);
        let of_rows = self.highest() == Kind::Rows;
        of_rows
            && (is_sum || is_summed_loss)
            && self.results.iter().any(|result| result.kind == Kind::Aggregate)
    }

    /// Whether it scales an aggregate.
    pub(super) fn scales(&self) -> bool {
        self.highest() == Kind::Aggregate && matches!(base_name(self.name()), "div" | "mul" | "mean")
    }

    pub(super) fn takes_batch_statistics(&self) -> bool {
        self.has(BATCH_NORM) && !self.has_attribute("training", &[0])
    }
}
