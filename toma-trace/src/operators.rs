//! The table of operators: everything that follows from an operator's name.
//!
//! Whatever a schema or a tag of the framework says about an operator (what it writes, whether it makes views, draws
//! random numbers or takes running statistics) is read there. This table holds the rest, for every system that asks:
//! the judgement on splitting, dry runs, checkpoint regions and offloading.
//!
//! ```
//! use toma_trace::operators::{self, LINEAR, PICKS_ROWS, SUM};
//!
//! assert!(operators::named("aten::sum.dim_IntList").has(SUM));
//! assert!(operators::named("aten::add_.Tensor").has(LINEAR));
//! assert!(!operators::named("aten::tanh").has(PICKS_ROWS));
//! ```

/// Sum or mean of all it is given: pieces of it add up.
pub const SUM: u32 = 1;
/// Loss that is a sum or a mean of the losses of rows.
pub const LOSS: u32 = 1 << 1;
/// Loss that divides by the sum of the rows' weights, where it is given weights.
pub const WEIGHTED: u32 = 1 << 2;
/// Keeps an aggregate of rows an aggregate that pieces add up to, whatever else it is given.
pub const LINEAR: u32 = 1 << 3;
/// Adds its arguments, plain numbers included.
pub const ADDS: u32 = 1 << 4;
/// Lets elements see each other along its `dim`.
pub const ALONG_DIM: u32 = 1 << 5;
/// Picks elements by number along its `dim`.
pub const PICKS_ROWS: u32 = 1 << 6;
/// Batch norm, which in training normalizes by the statistics of all rows.
pub const BATCH_NORM: u32 = 1 << 7;
/// Norm whose statistics belong to single rows, unless it runs along the batch.
pub const NORM: u32 = 1 << 8;
/// Convolution, whose kernel has the width of its window in each dimension.
pub const CONVOLUTION: u32 = 1 << 9;
/// Reads only those rows of its first argument that its indices name.
pub const GATHERS: u32 = 1 << 10;
/// May return its argument itself, whose memory the program then reads.
pub const HANDS_BACK: u32 = 1 << 11;
/// Takes a tensor out of its graph in place, and looks at no memory.
pub const DETACHES: u32 = 1 << 12;
/// Writes to its last argument, a workspace, without saying so in its schema.
pub const WRITES_WORKSPACE: u32 = 1 << 13;
/// Changes the shape or the memory of its first argument.
pub const RESIZES: u32 = 1 << 14;
/// Registered as a kernel although it only calls other operators.
pub const CALLS_OTHERS: u32 = 1 << 15;
/// Same as [`CALLS_OTHERS`], on the CPU alone.
pub const CALLS_OTHERS_ON_CPU: u32 = 1 << 16;
/// Makes its result itself, although the CPU has no kernel registered as its own.
pub const CALLS_NONE: u32 = 1 << 17;
/// Matrix product: libraries get copies of operands that they cannot take as they are.
pub const COPIES_OPERANDS: u32 = 1 << 18;
/// Kernel that takes a good part of its result's bytes as scratch.
pub const TAKES_SCRATCH: u32 = 1 << 19;
/// Kernel that is known to take no scratch, so that its shape rule says all.
pub const TAKES_NO_SCRATCH: u32 = 1 << 20;
/// Runs on tensors without data, although it has no Meta kernel of its own.
pub const RUNS_ON_META: u32 = 1 << 21;
/// Reads the running statistics that it is given, and never updates them: also in training, or it knows no training.
/// Any other operator with running statistics updates them in training, without saying so, and does not read them then.
pub const READS_STATISTICS: u32 = 1 << 22;

/// Rule for the shapes of an operator's results, where no Meta kernel tells them or it costs too much to ask one.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named after operators")]
pub enum ShapeRule {
    Dropout = 1,
    IndexSelect,
    EmbeddingBackward,
    Convolution,
    ConvolutionBackward,
    BatchNorm,
    BatchNormBackward,
    LayerNorm,
    LayerNormBackward,
    Attention,
    AttentionBackward,
    /// Of masks, the most indices that they can hold.
    Index,
    /// As many elements as the mask has.
    MaskedSelect,
    /// As many indices as there are elements.
    NonZero,
}

/// Properties of one operator; none of an operator that the table does not list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    flags: u32,
    shape_rule: Option<ShapeRule>,
}

impl Properties {
    /// Returns whether the operator has all of `flags`, which are constants of this module.
    pub const fn has(self, flags: u32) -> bool {
        self.flags & flags == flags
    }

    /// Rule for the shapes of its results.
    pub const fn shape_rule(self) -> Option<ShapeRule> {
        self.shape_rule
    }
}

/// Properties of an operator by its name, with or without namespace and overload. An operator in place has those of the
/// one that is not, unless the table lists it by itself.
pub fn named(name: &str) -> Properties {
    let name = without_overload(name);
    find(name).or_else(|| find(name.strip_suffix('_')?)).unwrap_or_else(|| of_family(name))
}

/// Name without namespace, overload and the mark of a call in place: `add` for `aten::add_.Tensor`.
pub fn base_name(name: &str) -> &str {
    let name = without_overload(name);
    name.strip_suffix('_').unwrap_or(name)
}

/// Number of last dimensions along which an operator looks at neighbors, as its name says: 2 for `avg_pool2d`.
pub fn window_dims(name: &str) -> Option<usize> {
    let name = base_name(name);
    let is_window = WINDOWS.iter().any(|window| name.contains(window));
    (1..=3).rfind(|dims| is_window && name.contains(&format!("{dims}d")))
}

fn without_overload(name: &str) -> &str {
    let name = name.rsplit("::").next().unwrap_or_default();
    name.split('.').next().unwrap_or_default()
}

fn find(name: &str) -> Option<Properties> {
    let row = TABLE.binary_search_by_key(&name, |row| row.0).ok()?;
    let (_, flags, shape_rule) = TABLE[row];
    Some(Properties { flags, shape_rule })
}

fn of_family(name: &str) -> Properties {
    let flags = if name.starts_with("upsample_") { TAKES_SCRATCH } else { 0 };
    Properties { flags, shape_rule: None }
}

const WINDOWS: [&str; 4] = ["pool", "upsample", "reflection_pad", "replication_pad"];

/// Name, flags and shape rule of each operator, sorted by name.
#[rustfmt::skip]
const TABLE: &[(&str, u32, Option<ShapeRule>)] = &[
    ("_batch_norm_no_update", READS_STATISTICS, None),
    ("_batch_norm_with_update", BATCH_NORM, None),
    ("_batch_norm_with_update_functional", READS_STATISTICS, None),
    ("_conv_depthwise2d", CONVOLUTION, None),
    ("_convolution", CONVOLUTION, Some(ShapeRule::Convolution)),
    ("_cummax_helper", ALONG_DIM, None),
    ("_cummin_helper", ALONG_DIM, None),
    ("_fused_rms_norm", NORM, None),
    ("_index_put_impl", PICKS_ROWS, None),
    ("_log_softmax", ALONG_DIM, None),
    ("_native_batch_norm_legit", BATCH_NORM, None),
    ("_native_batch_norm_legit_functional", READS_STATISTICS, None),
    ("_native_batch_norm_legit_no_training", READS_STATISTICS, None),
    ("_reshape_alias", LINEAR, None),
    ("_safe_softmax", ALONG_DIM, None),
    ("_scaled_dot_product_flash_attention_for_cpu", 0, Some(ShapeRule::Attention)),
    ("_scaled_dot_product_flash_attention_for_cpu_backward", 0, Some(ShapeRule::AttentionBackward)),
    ("_slow_conv2d_forward", CONVOLUTION, None),
    ("_softmax", ALONG_DIM, None),
    ("_to_copy", LINEAR, None),
    ("_unsafe_view", LINEAR, None),
    ("add", LINEAR | ADDS, None),
    ("addmm", COPIES_OPERANDS, None),
    ("alias", LINEAR, None),
    ("argsort", ALONG_DIM, None),
    ("baddbmm", COPIES_OPERANDS, None),
    ("batch_norm", BATCH_NORM, None),
    ("binary_cross_entropy", LOSS | TAKES_SCRATCH, None),
    ("binary_cross_entropy_with_logits", LOSS, None),
    ("bmm", COPIES_OPERANDS, None),
    ("broadcast_to", LINEAR, None),
    ("cat", LINEAR, None),
    ("clone", LINEAR, None),
    ("contiguous", LINEAR | HANDS_BACK, None),
    ("conv_depthwise3d", CONVOLUTION, None),
    ("convolution", CONVOLUTION, Some(ShapeRule::Convolution)),
    ("convolution_backward", 0, Some(ShapeRule::ConvolutionBackward)),
    ("convolution_overrideable", CONVOLUTION, None),
    ("copy", LINEAR, None),
    ("cross_entropy_loss", LOSS, None),
    ("cudnn_batch_norm", BATCH_NORM, None),
    ("cudnn_convolution", CONVOLUTION, None),
    ("cummax", ALONG_DIM, None),
    ("cummin", ALONG_DIM, None),
    ("cumprod", ALONG_DIM, None),
    ("cumsum", ALONG_DIM, None),
    ("detach", LINEAR, None),
    ("detach_", LINEAR | DETACHES, None),
    ("diff", ALONG_DIM, None),
    ("embedding", GATHERS, None),
    ("embedding_dense_backward", 0, Some(ShapeRule::EmbeddingBackward)),
    ("expand", LINEAR, None),
    ("expand_as", LINEAR, None),
    ("flip", ALONG_DIM, None),
    ("gather", PICKS_ROWS, None),
    ("huber_loss", LOSS, None),
    ("index", PICKS_ROWS | GATHERS, Some(ShapeRule::Index)),
    ("index_add", PICKS_ROWS, None),
    ("index_copy", PICKS_ROWS, None),
    ("index_fill", PICKS_ROWS, None),
    ("index_put", PICKS_ROWS, None),
    ("index_select", PICKS_ROWS | GATHERS | TAKES_NO_SCRATCH, Some(ShapeRule::IndexSelect)),
    ("kthvalue", ALONG_DIM, None),
    ("l1_loss", LOSS, None),
    ("lift_fresh", LINEAR, None),
    ("log_softmax", ALONG_DIM, None),
    ("logcumsumexp", ALONG_DIM, None),
    ("masked_select", PICKS_ROWS, Some(ShapeRule::MaskedSelect)),
    ("mean", SUM | LINEAR, None),
    ("miopen_batch_norm", BATCH_NORM, None),
    ("miopen_convolution", CONVOLUTION, None),
    ("mkldnn_convolution", CONVOLUTION, None),
    ("mkldnn_rnn_layer_backward", WRITES_WORKSPACE, None),
    ("mm", COPIES_OPERANDS, None),
    ("mse_loss", LOSS | TAKES_SCRATCH, None),
    ("multi_margin_loss", LOSS, None),
    ("multilabel_margin_loss_forward", LOSS, None),
    ("nanmean", SUM, None),
    ("nansum", SUM, None),
    ("native_batch_norm", BATCH_NORM, Some(ShapeRule::BatchNorm)),
    ("native_batch_norm_backward", 0, Some(ShapeRule::BatchNormBackward)),
    ("native_dropout", CALLS_OTHERS_ON_CPU, Some(ShapeRule::Dropout)),
    ("native_group_norm", NORM, None),
    ("native_layer_norm", NORM, Some(ShapeRule::LayerNorm)),
    ("native_layer_norm_backward", 0, Some(ShapeRule::LayerNormBackward)),
    ("neg", LINEAR, None),
    ("nll_loss", LOSS | WEIGHTED, None),
    ("nll_loss2d_forward", LOSS | WEIGHTED, None),
    ("nll_loss_forward", LOSS | WEIGHTED, None),
    ("nonzero", 0, Some(ShapeRule::NonZero)),
    ("permute", LINEAR, None),
    ("relu", CALLS_OTHERS, None),
    ("renorm", ALONG_DIM, None),
    ("repeat", LINEAR | CALLS_NONE, None),
    ("reshape", LINEAR, None),
    ("resize_", RESIZES, None),
    ("roll", ALONG_DIM, None),
    ("rsub", LINEAR | ADDS, None),
    ("scatter", PICKS_ROWS, None),
    ("scatter_add", PICKS_ROWS, None),
    ("scatter_reduce", PICKS_ROWS, None),
    ("select", LINEAR, None),
    ("set_", RESIZES, None),
    ("slice", LINEAR, None),
    ("slow_conv3d_forward", CONVOLUTION, None),
    ("smooth_l1_loss", LOSS | TAKES_SCRATCH, None),
    ("soft_margin_loss", LOSS, None),
    ("softmax", ALONG_DIM, None),
    ("sort", ALONG_DIM, None),
    ("squeeze", LINEAR, None),
    ("stack", LINEAR, None),
    ("sub", LINEAR | ADDS, None),
    ("sum", SUM | LINEAR, None),
    ("t", LINEAR, None),
    ("take", PICKS_ROWS, None),
    ("take_along_dim", PICKS_ROWS, None),
    ("thnn_conv2d", CONVOLUTION, None),
    ("to", LINEAR | HANDS_BACK, None),
    ("topk", ALONG_DIM, None),
    ("transpose", LINEAR, None),
    ("unsqueeze", LINEAR, None),
    ("view", LINEAR, None),
    ("zeros", CALLS_NONE | RUNS_ON_META, None),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_each_name_stands_in_it_once() {
        assert!(TABLE.is_sorted_by(|one, next| one.0 < next.0));
    }

    #[test]
    fn each_row_says_something() {
        let is_empty = |row: &&(&str, u32, Option<ShapeRule>)| row.1 == 0 && row.2.is_none();
        assert_eq!(TABLE.iter().find(is_empty), None);
    }

    #[test]
    fn names_lose_namespace_overload_and_the_mark_of_a_call_in_place() {
        for name in ["aten::add.Tensor", "aten::add_.Tensor", "aten::add", "add_", "add"] {
            assert_eq!((base_name(name), named(name)), ("add", find("add").unwrap()), "{name}");
        }
        assert_eq!(named("aten::tanh_"), Properties::default());
    }

    #[test]
    fn an_operator_in_place_may_have_properties_of_its_own() {
        assert!(named("aten::detach_").has(DETACHES) && !named("aten::detach").has(DETACHES));
        assert!(named("aten::resize_").has(RESIZES) && !named("aten::resize.out").has(RESIZES));
    }

    #[test]
    fn windows_and_families_are_known_by_their_names() {
        assert_eq!(window_dims("aten::avg_pool2d"), Some(2));
        assert_eq!(window_dims("aten::conv2d"), None);
        assert!(named("aten::upsample_nearest1d").has(TAKES_SCRATCH));
    }
}
