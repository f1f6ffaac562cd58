//! Two transformers by their sizes: all-MiniLM-L6-v2, and a GPT of 124 million weights.

use tch::nn::{self, Module as _, ModuleT, Path};
use tch::{Kind, Tensor};

/// Dimensions of a transformer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    words: i64,
    positions: i64,
    width: i64,
    layers: usize,
    heads: i64,
    /// Predicts the token after each token, from those before it; otherwise returns a vector for the text.
    generates: bool,
}

pub(crate) const MINILM: Sizes =
    Sizes { words: 30_522, positions: 512, width: 384, layers: 6, heads: 12, generates: false };

pub(crate) const GPT: Sizes =
    Sizes { words: 50_257, positions: 1024, width: 768, layers: 12, heads: 12, generates: true };

/// Maps tokens to a vector for each text, or to a number per word of the vocabulary for each token.
pub(crate) fn transformer(root: &Path<'_>, sizes: Sizes) -> impl ModuleT + use<> {
    let table = |name, rows| nn::embedding(root / name, rows, sizes.width, nn::EmbeddingConfig::default());
    let [words, positions] = [table("words", sizes.words), table("positions", sizes.positions)];
    let blocks: Vec<_> = (0..sizes.layers).map(|layer| Block::new(&(root / layer), sizes)).collect();
    let last = norm(root, "norm", sizes.width);
    nn::func_t(move |tokens, _| {
        let places = Tensor::arange(tokens.size()[1], (Kind::Int64, tokens.device()));
        let input = words.forward(tokens) + positions.forward(&places);
        let hidden = blocks.iter().fold(input, |hidden, block| block.forward(&hidden, sizes));
        let hidden = last.forward(&hidden);
        if sizes.generates { hidden.matmul(&words.ws.tr()) } else { hidden.mean_dim(1, false, None) }
    })
}

/// Attention and a layer of four times the width, each added to its input, and normalized.
#[derive(Debug)]
struct Block {
    norms: [nn::LayerNorm; 2],
    attend: nn::Linear,
    project: nn::Linear,
    widen: nn::Linear,
    narrow: nn::Linear,
}

impl Block {
    fn new(path: &Path<'_>, Sizes { width, .. }: Sizes) -> Self {
        let linear = |name, from, to| nn::linear(path / name, from, to, nn::LinearConfig::default());
        Self {
            norms: [norm(path, "norm1", width), norm(path, "norm2", width)],
            attend: linear("attend", width, 3 * width),
            project: linear("project", width, width),
            widen: linear("widen", width, 4 * width),
            narrow: linear("narrow", 4 * width, width),
        }
    }

    /// A GPT normalizes the input of a layer, a BERT the result of the sum.
    fn forward(&self, input: &Tensor, sizes: Sizes) -> Tensor {
        let [first, second] = &self.norms;
        let wide = |x: &Tensor| self.narrow.forward(&self.widen.forward(x).gelu("none"));
        if sizes.generates {
            let middle = input + self.attended(&first.forward(input), sizes);
            &middle + wide(&second.forward(&middle))
        } else {
            let middle = first.forward(&(input + self.attended(input, sizes)));
            second.forward(&(&middle + wide(&middle)))
        }
    }

    fn attended(&self, input: &Tensor, Sizes { heads, generates, .. }: Sizes) -> Tensor {
        // From batch × tokens × 3 widths to 3 × batch × heads × tokens × size of a head.
        let all = self.attend.forward(input).unflatten(2, [3, heads, -1]).permute([2, 0, 3, 1, 4]);
        let [queries, keys, values] = [0, 1, 2].map(|part| all.get(part));
        let mask = None::<&Tensor>;
        let attended =
            Tensor::scaled_dot_product_attention(&queries, &keys, &values, mask, 0.0, generates, None, false);
        self.project.forward(&attended.transpose(1, 2).flatten(2, 3))
    }
}

fn norm(path: &Path<'_>, name: &str, width: i64) -> nn::LayerNorm {
    nn::layer_norm(path / name, vec![width], nn::LayerNormConfig::default())
}
