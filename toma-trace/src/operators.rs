//! The table of operators: everything that follows from an operator's name.
//!
//! Properties that a schema or a tag of the framework states (the arguments it writes, views, random numbers, running
//! statistics) are read there. This table holds the rest, for every system that needs it: the judgement on splitting,
//! dry runs, checkpoint regions and offloading.
//!
//! ```
//! use toma_trace::operators::{self, GATHERS, RowRule};
//!
//! assert!(operators::named("aten::embedding").has(GATHERS));
//! assert_eq!(operators::row_rule("aten::sum.dim_IntList"), Some(RowRule::Sums));
//! assert_eq!(operators::row_rule("aten::fft_fft"), None);
//! ```

mod rows;

pub use rows::{RowRule, row_rule, window_dims};

// toma-torch passes the first 14 to its shim, in the order of their bits.

/// Reads only those rows of its first argument that its indices name.
pub const GATHERS: u32 = 1 << 0;
/// May return its argument itself, whose memory the program then reads.
pub const HANDS_BACK: u32 = 1 << 1;
/// Takes a tensor out of its graph in place, and looks at no memory.
pub const DETACHES: u32 = 1 << 2;
/// Writes to its last argument, a workspace, which its schema does not show.
pub const WRITES_WORKSPACE: u32 = 1 << 3;
/// Changes the shape or the memory of its first argument.
pub const RESIZES: u32 = 1 << 4;
/// Registered as a kernel although it only calls other operators.
pub const CALLS_OTHERS: u32 = 1 << 5;
/// Same as [`CALLS_OTHERS`], on the CPU alone.
pub const CALLS_OTHERS_ON_CPU: u32 = 1 << 6;
/// Makes its result itself, although the CPU has no kernel registered as its own.
pub const CALLS_NONE: u32 = 1 << 7;
/// Matrix product: libraries get copies of operands that they cannot take as they are.
pub const COPIES_OPERANDS: u32 = 1 << 8;
/// Kernel that takes a good part of its result's bytes as scratch.
pub const TAKES_SCRATCH: u32 = 1 << 9;
/// Kernel that is known to take no scratch, so that its shape rule predicts all its memory.
pub const TAKES_NO_SCRATCH: u32 = 1 << 10;
/// Runs on tensors without data, although it has no Meta kernel of its own.
pub const RUNS_ON_META: u32 = 1 << 11;
/// Reads the running statistics that it is given, and never updates them: also in training, or it knows no training.
/// Any other operator with running statistics updates them in training, which its schema does not show, and does not
/// read them then.
pub const READS_STATISTICS: u32 = 1 << 12;
/// Reduction, for which CUDA takes scratch if few results have many inputs.
pub const REDUCES: u32 = 1 << 13;
/// Makes zeros in the shape of its argument, with which most optimizers begin a state.
pub const ZEROS_LIKE: u32 = 1 << 14;
/// Copies its argument, with which SGD begins its momentum.
pub const CLONES: u32 = 1 << 15;

/// Rule for the shapes of an operator's results, if no Meta kernel computes them or calling one costs too much.
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
    /// For masks, the most indices that they can hold.
    Index,
    /// As many elements as the mask has.
    MaskedSelect,
    /// As many indices as there are elements.
    NonZero,
    EfficientAttention,
    EfficientAttentionBackward,
    FlashAttention,
    FlashAttentionBackward,
    CudnnAttention,
    CudnnAttentionBackward,
    CudnnBatchNorm,
    CudnnBatchNormBackward,
    GruCell,
    GruCellBackward,
    LstmCell,
    LstmCellBackward,
}

/// Properties of one operator; empty for an operator that the table does not list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    flags: u32,
    shape_rule: Option<ShapeRule>,
}

impl Properties {
    /// Returns true if the operator has all of `flags`, which are constants of this module.
    pub const fn has(self, flags: u32) -> bool {
        self.flags & flags == flags
    }

    /// Returns the rule for the shapes of its results.
    pub const fn shape_rule(self) -> Option<ShapeRule> {
        self.shape_rule
    }
}

/// Returns the properties of an operator by its name, with or without namespace and overload. An in-place operator has
/// those of its out-of-place form, unless the table lists it separately.
pub fn named(name: &str) -> Properties {
    let name = without_overload(name);
    find(name).or_else(|| find(name.strip_suffix('_')?)).unwrap_or_else(|| of_family(name))
}

/// Returns the name without namespace, overload and the mark of a call in place: `add` for `aten::add_.Tensor`.
pub fn base_name(name: &str) -> &str {
    let name = without_overload(name);
    name.strip_suffix('_').unwrap_or(name)
}

/// Returns the name of an operator without the library's namespace.
pub(crate) fn short_name(name: &str) -> &str {
    name.strip_prefix("aten::").unwrap_or(name)
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

/// Name, flags and shape rule of each operator, sorted by name.
#[rustfmt::skip]
const TABLE: &[(&str, u32, Option<ShapeRule>)] = &[
    ("_batch_norm_no_update", READS_STATISTICS, None),
    ("_batch_norm_with_update_functional", READS_STATISTICS, None),
    ("_convolution", 0, Some(ShapeRule::Convolution)),
    ("_native_batch_norm_legit_functional", READS_STATISTICS, None),
    ("_native_batch_norm_legit_no_training", READS_STATISTICS, None),
    ("_scaled_dot_product_cudnn_attention", 0, Some(ShapeRule::CudnnAttention)),
    ("_scaled_dot_product_cudnn_attention_backward", 0, Some(ShapeRule::CudnnAttentionBackward)),
    ("_scaled_dot_product_efficient_attention", 0, Some(ShapeRule::EfficientAttention)),
    ("_scaled_dot_product_efficient_attention_backward", 0, Some(ShapeRule::EfficientAttentionBackward)),
    ("_scaled_dot_product_flash_attention", 0, Some(ShapeRule::FlashAttention)),
    ("_scaled_dot_product_flash_attention_backward", 0, Some(ShapeRule::FlashAttentionBackward)),
    ("_scaled_dot_product_flash_attention_for_cpu", 0, Some(ShapeRule::Attention)),
    ("_scaled_dot_product_flash_attention_for_cpu_backward", 0, Some(ShapeRule::AttentionBackward)),
    ("_thnn_fused_gru_cell", 0, Some(ShapeRule::GruCell)),
    ("_thnn_fused_gru_cell_backward", 0, Some(ShapeRule::GruCellBackward)),
    ("_thnn_fused_lstm_cell", 0, Some(ShapeRule::LstmCell)),
    ("_thnn_fused_lstm_cell_backward_impl", 0, Some(ShapeRule::LstmCellBackward)),
    ("addmm", COPIES_OPERANDS, None),
    ("baddbmm", COPIES_OPERANDS, None),
    ("binary_cross_entropy", TAKES_SCRATCH, None),
    ("bmm", COPIES_OPERANDS, None),
    ("clone", CLONES, None),
    ("contiguous", HANDS_BACK, None),
    ("convolution", 0, Some(ShapeRule::Convolution)),
    ("convolution_backward", 0, Some(ShapeRule::ConvolutionBackward)),
    ("cudnn_batch_norm", 0, Some(ShapeRule::CudnnBatchNorm)),
    ("cudnn_batch_norm_backward", 0, Some(ShapeRule::CudnnBatchNormBackward)),
    ("detach_", DETACHES, None),
    ("embedding", GATHERS, None),
    ("embedding_dense_backward", 0, Some(ShapeRule::EmbeddingBackward)),
    ("index", GATHERS, Some(ShapeRule::Index)),
    ("index_select", GATHERS | TAKES_NO_SCRATCH, Some(ShapeRule::IndexSelect)),
    ("masked_select", 0, Some(ShapeRule::MaskedSelect)),
    ("mean", REDUCES, None),
    ("mkldnn_rnn_layer_backward", WRITES_WORKSPACE, None),
    ("mm", COPIES_OPERANDS, None),
    ("mse_loss", TAKES_SCRATCH, None),
    ("native_batch_norm", 0, Some(ShapeRule::BatchNorm)),
    ("native_batch_norm_backward", 0, Some(ShapeRule::BatchNormBackward)),
    ("native_dropout", CALLS_OTHERS_ON_CPU, Some(ShapeRule::Dropout)),
    ("native_layer_norm", 0, Some(ShapeRule::LayerNorm)),
    ("native_layer_norm_backward", 0, Some(ShapeRule::LayerNormBackward)),
    ("nonzero", 0, Some(ShapeRule::NonZero)),
    ("relu", CALLS_OTHERS, None),
    ("repeat", CALLS_NONE, None),
    ("resize_", RESIZES, None),
    ("set_", RESIZES, None),
    ("smooth_l1_loss", TAKES_SCRATCH, None),
    ("sum", REDUCES, None),
    ("to", HANDS_BACK, None),
    ("zeros", CALLS_NONE | RUNS_ON_META, None),
    ("zeros_like", ZEROS_LIKE, None),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_each_name_stands_in_it_once() {
        assert!(TABLE.is_sorted_by(|one, next| one.0 < next.0));
    }

    #[test]
    fn each_row_has_a_property() {
        let is_empty = |row: &&(&str, u32, Option<ShapeRule>)| row.1 == 0 && row.2.is_none();
        assert_eq!(TABLE.iter().find(is_empty), None);
    }

    #[test]
    fn names_lose_namespace_overload_and_the_mark_of_a_call_in_place() {
        for name in ["aten::add.Tensor", "aten::add_.Tensor", "aten::add", "add_", "add"] {
            assert_eq!((base_name(name), named(name)), ("add", Properties::default()), "{name}");
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
        assert_eq!(
            (row_rule("aten::avg_pool2d"), window_dims("aten::avg_pool2d")),
            (Some(RowRule::Window), Some(2))
        );
        assert_eq!(row_rule("aten::conv2d"), None);
        assert!(named("aten::upsample_nearest1d").has(TAKES_SCRATCH));
    }
}
