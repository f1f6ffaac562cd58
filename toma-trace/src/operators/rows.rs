//! Treatment of the rows of arguments by each operator.

use super::base_name;

/// Dependence of the rows of an operator's results on the rows of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowRule {
    /// Each element depends on the elements at the same position.
    Elementwise,
    /// The elements stay in order and get another shape.
    Reshapes,
    /// Dimensions are reordered or removed.
    Moves,
    /// One tensor for every row, spread over the batch.
    Spreads,
    /// The arguments side by side along a dimension.
    Joins,
    /// A sum over dimensions.
    Sums,
    /// A mean over dimensions.
    Averages,
    /// Another function of whole dimensions, or of each element and others along a dimension.
    AlongDim,
    /// A loss of rows, summed or averaged as its `reduction` says.
    Loss,
    /// A loss of rows, averaged over the weights of the classes or without an ignored class.
    ClassLoss,
    /// A matrix product.
    Product,
    /// A product of the matrices of each row.
    BatchProduct,
    /// Attention among the tokens of each row.
    Attention,
    /// A convolution of each row.
    Convolution,
    /// Normalization by running statistics, or by those of the batch.
    BatchNorm,
    /// Normalization by statistics of each row.
    Norm,
    /// A window over the last dimensions.
    Window,
    /// Rows of a table, picked by index.
    Lookup,
    /// Elements picked by index along a dimension.
    PicksAlongDim,
    /// Elements selected by a mask, in one dimension.
    Selects,
    /// A recurrent layer over time, which is the first dimension.
    Recurrent,
    /// One time step of a recurrent layer, of the rows of matrices.
    Cell,
    /// New values that depend on no argument.
    Fills,
    /// A number that the program reads.
    ReadsNumber,
}

/// Returns the rule of an operator by its name, with or without namespace and overload; an in-place operator has that
/// of its out-of-place form. `None` if it is not known to keep rows apart.
pub fn row_rule(name: &str) -> Option<RowRule> {
    let name = base_name(name);
    let known = RULES.iter().find(|(_, names)| names.contains(&name)).map(|(rule, _)| *rule);
    known.or_else(|| is_window(name).then_some(RowRule::Window))
}

/// Operators by their rule.
const RULES: &[(RowRule, &[&str])] = &[
    (
        RowRule::Elementwise,
        &[
            "abs",
            "add",
            "addcdiv",
            "addcmul",
            "alias",
            "bernoulli",
            "celu",
            "clamp",
            "clamp_max",
            "clamp_min",
            "clone",
            "contiguous",
            "copy",
            "detach",
            "div",
            "dropout",
            "elu",
            "eq",
            "exp",
            "exponential",
            "floor",
            "floor_divide",
            "frac",
            "ge",
            "gelu",
            "gt",
            "hardsigmoid",
            "hardswish",
            "hardtanh",
            "isclose",
            "le",
            "leaky_relu",
            "lift_fresh",
            "log",
            "log_sigmoid_forward",
            "logical_not",
            "lt",
            "masked_fill",
            "max_other",
            "mish",
            "mul",
            "native_dropout",
            "ne",
            "neg",
            "normal",
            "poisson",
            "pow",
            "prelu",
            "_prelu_kernel",
            "reciprocal",
            "relu",
            "rrelu_with_noise",
            "rsqrt",
            "rsub",
            "sigmoid",
            "silu",
            "softplus",
            "sqrt",
            "square",
            "sub",
            "tanh",
            "threshold",
            "to",
            "_to_copy",
            "uniform",
            "where",
            "zero",
            "fill",
            "random",
            "angle",
            "frexp",
            "hardshrink",
            "softshrink",
            "view_as_real",
            "view_as_complex",
            "real",
            "imag",
            "_conj",
            "resolve_conj",
        ],
    ),
    (
        RowRule::Reshapes,
        &[
            "view",
            "_unsafe_view",
            "reshape",
            "_reshape_alias",
            "squeeze",
            "unsqueeze",
            "flatten",
            "unflatten",
            "_reshape_copy",
        ],
    ),
    (
        RowRule::Moves,
        &[
            "permute",
            "transpose",
            "t",
            "select",
            "slice",
            "narrow",
            "split",
            "split_with_sizes",
            "chunk",
            "unbind",
            "diagonal",
            "unfold",
            "movedim",
            "flip",
            "roll",
            "constant_pad_nd",
            "pixel_shuffle",
            "unsafe_split",
            "unsafe_chunk",
            "tril",
            "triu",
            "unfold_copy",
        ],
    ),
    (RowRule::Spreads, &["expand", "expand_as", "broadcast_to", "repeat"]),
    (RowRule::Joins, &["cat", "stack", "concat"]),
    (RowRule::Sums, &["sum", "nansum"]),
    (RowRule::Averages, &["mean"]),
    (
        RowRule::AlongDim,
        &[
            "softmax",
            "_softmax",
            "log_softmax",
            "_log_softmax",
            "_safe_softmax",
            "cumsum",
            "cumprod",
            "cummax",
            "cummin",
            "_cummax_helper",
            "_cummin_helper",
            "logcumsumexp",
            "sort",
            "argsort",
            "topk",
            "kthvalue",
            "diff",
            "amax",
            "amin",
            "max",
            "min",
            "argmax",
            "argmin",
            "any",
            "all",
            "prod",
            "norm",
            "linalg_vector_norm",
            "var",
            "std",
            "var_mean",
            "std_mean",
            "logsumexp",
            "median",
            "nanmedian",
            "nanmean",
            "mode",
            "count_nonzero",
            "aminmax",
            "glu",
        ],
    ),
    (
        RowRule::Loss,
        &[
            "binary_cross_entropy",
            "binary_cross_entropy_with_logits",
            "huber_loss",
            "l1_loss",
            "mse_loss",
            "smooth_l1_loss",
            "soft_margin_loss",
            "multi_margin_loss",
            "multilabel_margin_loss_forward",
            "kl_div",
        ],
    ),
    (RowRule::ClassLoss, &["nll_loss", "nll_loss_forward", "nll_loss2d_forward", "cross_entropy_loss"]),
    (RowRule::Product, &["mm", "addmm", "linear", "mv", "addmv", "_addmm_activation", "mkldnn_linear"]),
    (RowRule::BatchProduct, &["bmm", "baddbmm"]),
    (
        RowRule::Attention,
        &[
            "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_efficient_attention",
            "_scaled_dot_product_cudnn_attention",
            "_scaled_dot_product_attention_math",
            "scaled_dot_product_attention",
            "_scaled_dot_product_fused_attention_overrideable",
        ],
    ),
    (
        RowRule::Convolution,
        &[
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
        ],
    ),
    (
        RowRule::BatchNorm,
        &[
            "batch_norm",
            "native_batch_norm",
            "_native_batch_norm_legit",
            "_batch_norm_with_update",
            "cudnn_batch_norm",
            "miopen_batch_norm",
            "_native_batch_norm_legit_no_training",
        ],
    ),
    (RowRule::Norm, &["native_layer_norm", "native_group_norm", "_fused_rms_norm", "rms_norm"]),
    (RowRule::Lookup, &["embedding"]),
    (
        RowRule::PicksAlongDim,
        &["index_select", "gather", "take_along_dim", "scatter", "scatter_add", "scatter_reduce", "index"],
    ),
    (RowRule::Selects, &["masked_select"]),
    (RowRule::Recurrent, &["mkldnn_rnn_layer"]),
    (RowRule::Cell, &["_thnn_fused_lstm_cell", "_thnn_fused_gru_cell"]),
    (
        RowRule::Fills,
        &[
            "zeros",
            "ones",
            "full",
            "empty",
            "empty_strided",
            "new_zeros",
            "new_ones",
            "new_full",
            "new_empty",
            "new_empty_strided",
            "rand",
            "randn",
            "randint",
            "scalar_tensor",
            "zeros_like",
            "ones_like",
            "full_like",
            "empty_like",
            "rand_like",
            "randn_like",
            "randint_like",
        ],
    ),
    (RowRule::ReadsNumber, &["_local_scalar_dense"]),
];

/// True for operators over neighbors along the last dimensions, whose number is part of the name: `avg_pool2d`.
fn is_window(name: &str) -> bool {
    let kinds = ["pool", "upsample", "reflection_pad", "replication_pad"];
    kinds.iter().any(|kind| name.contains(kind)) && window_dims(name).is_some()
}

/// Returns the number of last dimensions of a window.
pub fn window_dims(name: &str) -> Option<usize> {
    (1..=3).rfind(|dims| name.contains(&format!("{dims}d")))
}
