//! A net for digits whose convolutions hold most of the activations, and whose last layers hold most of the weights.

use tch::nn::{self, Module as _};
use tch::{Device, Tensor};
use toma::torch::checkpoint;

const CHANNELS: i64 = 16;
const GROUPS: i64 = 4;
const BLOCKS: i64 = 6;
const PIXELS: i64 = 8 * 8;
const WIDTH: i64 = 1024;

pub(crate) struct Net {
    pub(crate) variables: nn::VarStore,
    stem: nn::Conv2D,
    blocks: Vec<Block>,
    norm: nn::GroupNorm,
    wide: nn::Linear,
    head: nn::Linear,
}

/// Two convolutions whose output is added to the block's input.
///
/// Norms are of groups of channels, because norms of a batch would depend on the other images, and so differ in pieces.
/// GELU has no kink, at which a difference in the last digit would grow.
struct Block {
    norms: [nn::GroupNorm; 2],
    convolutions: [nn::Conv2D; 2],
}

impl Net {
    pub(crate) fn new() -> Self {
        let variables = nn::VarStore::new(Device::Cpu);
        let root = variables.root();
        let linear = |name, from, to| nn::linear(&root / name, from, to, nn::LinearConfig::default());
        let (wide, head) = (linear("wide", CHANNELS * PIXELS, WIDTH), linear("head", WIDTH, 10));
        let blocks = (0..BLOCKS).map(|at| Block::new(&(&root / at))).collect();
        let stem = convolution(&root / "stem", 1);
        Self { stem, blocks, norm: norm(&root / "norm"), wide, head, variables }
    }

    /// The mean over these images.
    #[toma::profile]
    pub(crate) fn loss(&self, images: &Tensor, classes: &Tensor) -> Tensor {
        let mut features = self.stem.forward(images);
        for block in &self.blocks {
            checkpoint::cut(); // Each block is a stage of a region.
            features = block.forward(&features);
        }
        checkpoint::cut();
        let features = self.norm.forward(&features).gelu("none");
        let hidden = self.wide.forward(&features.flatten(1, -1)).gelu("none");
        self.head.forward(&hidden).cross_entropy_for_logits(classes)
    }
}

impl Block {
    fn new(path: &nn::Path<'_>) -> Self {
        let norms = ["norm", "last"].map(|name| norm(path / name));
        Self { norms, convolutions: ["first", "second"].map(|name| convolution(path / name, CHANNELS)) }
    }

    #[toma::profile]
    fn forward(&self, input: &Tensor) -> Tensor {
        let edges = self.norms[0].forward(input).gelu("none");
        let edges = self.convolutions[0].forward(&edges);
        let shapes = self.norms[1].forward(&edges).gelu("none");
        self.convolutions[1].forward(&shapes) + input
    }
}

fn convolution(path: nn::Path<'_>, channels: i64) -> nn::Conv2D {
    let padded = nn::ConvConfig { padding: 1, bias: false, ..nn::ConvConfig::default() };
    nn::conv2d(path, channels, CHANNELS, 3, padded)
}

fn norm(path: nn::Path<'_>) -> nn::GroupNorm {
    nn::group_norm(path, GROUPS, CHANNELS, nn::GroupNormConfig::default())
}
