//! Which operators couple rows, by their names and dimensions.

use toma_trace::{Access, Operator};

use super::tensors::Tensor;
use super::{Coupling, Kind};

/// Aggregates that pieces add up to. A loss of all rows is a sum or a mean of theirs.
const SUMS: &[&str] = &["sum", "nansum", "mean", "nanmean"];
/// They divide by the sum of the rows' weights, if there are any.
const WEIGHTED: &[&str] = &["nll_loss", "nll_loss_forward", "nll_loss2d_forward"];
const LOSSES: &[&str] = &[
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy_loss",
    "huber_loss",
    "l1_loss",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss_forward",
    "nll_loss",
    "nll_loss2d_forward",
    "nll_loss_forward",
    "smooth_l1_loss",
    "soft_margin_loss",
];

/// What may become of an aggregate, whatever else it meets.
const LINEAR: &[&str] = &[
    "add",
    "sub",
    "rsub",
    "neg",
    "sum",
    "mean",
    "cat",
    "stack",
    "to",
    "_to_copy",
    "copy",
    "clone",
    "contiguous",
    "alias",
    "detach",
    "lift_fresh",
    "view",
    "_unsafe_view",
    "reshape",
    "_reshape_alias",
    "expand",
    "expand_as",
    "broadcast_to",
    "repeat",
    "squeeze",
    "unsqueeze",
    "permute",
    "t",
    "transpose",
    "select",
    "slice",
];

/// What adds its arguments, an integer or float included.
const SUMMING: &[&str] = &["add", "sub", "rsub"];

/// What lets rows see each other where it runs along the batch.
const ALONG: &[&str] = &[
    "softmax",
    "_softmax",
    "log_softmax",
    "_log_softmax",
    "_safe_softmax",
    "cumsum",
    "cumprod",
    "cummax",
    "cummin",
    "logcumsumexp",
    "sort",
    "argsort",
    "topk",
    "kthvalue",
    "flip",
    "roll",
    "renorm",
    "diff",
    "_cummax_helper",
    "_cummin_helper",
];

/// What picks rows by numbers where it runs along the batch.
const PICKS: &[&str] = &[
    "index",
    "index_select",
    "gather",
    "take",
    "take_along_dim",
    "masked_select",
    "index_put",
    "_index_put_impl",
    "index_add",
    "index_copy",
    "index_fill",
    "scatter",
    "scatter_add",
    "scatter_reduce",
];

const BATCH_NORMS: &[&str] = &[
    "batch_norm",
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_batch_norm_with_update",
    "cudnn_batch_norm",
    "miopen_batch_norm",
];

/// Their statistics belong to rows, unless they are taken along the batch.
const NORMS: &[&str] = &["native_layer_norm", "native_group_norm", "_fused_rms_norm"];

const CONVOLUTIONS: &[&str] = &[
    "convolution",
    "convolution_overrideable",
    "_convolution",
    "mkldnn_convolution",
    "cudnn_convolution",
    "miopen_convolution",
    "_slow_conv2d_forward",
    "slow_conv3d_forward",
    "thnn_conv2d",
    "_conv_depthwise2d",
    "conv_depthwise3d",
];

/// What looks at neighbors along its last dimensions, whose number stands in the name: `avg_pool2d`.
const WINDOWS: &[&str] = &["pool", "upsample", "reflection_pad", "replication_pad"];

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

    /// The name without namespace, overload and the mark of a call in place.
    fn base_name(&self) -> &str {
        let name = self.name().rsplit("::").next().unwrap_or_default();
        let name = name.split('.').next().unwrap_or_default();
        name.strip_suffix('_').unwrap_or(name)
    }

    fn is_one_of(&self, names: &[&str]) -> bool {
        names.contains(&self.base_name())
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
            Kind::Rows if self.is_one_of(BATCH_NORMS) => None,
            Kind::Rows if self.count(Kind::Aggregate) > 0 => Some(Coupling::RowsWithAggregate),
            Kind::Rows if self.is_one_of(ALONG) && self.runs_along_batch() => Some(Coupling::AlongBatch),
            Kind::Rows if self.is_one_of(NORMS) && self.makes_others => Some(Coupling::AlongBatch),
            Kind::Rows if self.looks_along_batch() => Some(Coupling::AlongBatch),
            Kind::Rows if self.is_one_of(PICKS) && self.picks_rows() => Some(Coupling::PicksRows),
            Kind::Rows if aggregates && self.divides_by_weights() => Some(Coupling::MaskedMean),
            Kind::Rows if !aggregates || self.is_one_of(SUMS) || self.is_one_of(LOSSES) => None,
            Kind::Rows if self.results.iter().any(|result| result.is_view) => Some(Coupling::PicksRows),
            Kind::Rows => Some(Coupling::OtherAggregate),
        }
    }

    /// Of scores, labels and weights; a sum does not divide.
    fn divides_by_weights(&self) -> bool {
        self.is_one_of(WEIGHTED) && self.inputs.len() > 2 && !self.has_attribute("reduction", &[2])
    }

    fn has_attribute(&self, name: &str, values: &[i64]) -> bool {
        self.operator.attributes.iter().any(|given| given.name == name && given.values == values)
    }

    /// Aggregates and constants alone. What an aggregate is divided by must be a constant.
    fn of_aggregates(&self) -> Option<Coupling> {
        let divisor = self.inputs.get(1).map_or(Kind::Constant, |input| input.kind);
        let dividend = self.inputs.first().map_or(Kind::Constant, |input| input.kind);
        match self.base_name() {
            "div" if divisor == Kind::Constant => None,
            "div" if dividend == Kind::Aggregate => Some(Coupling::MaskedMean),
            "mul" if self.count(Kind::Aggregate) == 1 => None,
            _ if self.is_one_of(LINEAR) => None,
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
        if self.is_one_of(CONVOLUTIONS) {
            let kernel = self.inputs.get(1).and_then(|weight| weight.shape.get(*batch));
            return *batch > 1 && kernel.is_some_and(|width| *width > 1);
        }
        let name = self.base_name();
        let is_window = WINDOWS.iter().any(|window| name.contains(window));
        let last = (1..=3).rfind(|dims| is_window && name.contains(&format!("{dims}d")));
        last.is_some_and(|dims| batch + dims >= shape.len())
    }

    /// A constant may be asked for its rows by rows: an embedding is no coupling.
    fn picks_rows(&self) -> bool {
        self.inputs.first().is_some_and(|input| input.kind == Kind::Rows) && self.runs_along_batch()
    }

    /// Whether a constant, or a number that is no tensor, is added to an aggregate.
    pub(super) fn adds_constant(&self) -> bool {
        self.is_one_of(SUMMING) && self.highest() == Kind::Aggregate && self.count(Kind::Aggregate) < 2
    }

    /// Whether it makes a sum of rows.
    pub(super) fn sums(&self) -> bool {
        let is_sum = matches!(self.base_name(), "sum" | "nansum");
        let is_summed_loss = self.is_one_of(LOSSES) && self.has_attribute("reduction", &[2]);
        let of_rows = self.highest() == Kind::Rows;
        of_rows
            && (is_sum || is_summed_loss)
            && self.results.iter().any(|result| result.kind == Kind::Aggregate)
    }

    /// Whether it scales an aggregate.
    pub(super) fn scales(&self) -> bool {
        self.highest() == Kind::Aggregate && matches!(self.base_name(), "div" | "mul" | "mean")
    }

    pub(super) fn takes_batch_statistics(&self) -> bool {
        self.is_one_of(BATCH_NORMS) && !self.has_attribute("training", &[0])
    }
}
