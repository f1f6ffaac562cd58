//! A residual net for digits. The forward of its blocks and its loss are checkpointed.

use tch::nn::{self, ModuleT};
use tch::{Device, Kind, Reduction, TchError, Tensor};
use toma::torch::checkpoint::{self, SequentialT};

use crate::data::Set;

const CHANNELS: i64 = 16;
const BLOCKS: i64 = 8;

pub(crate) struct Net {
    pub(crate) variables: nn::VarStore,
    stem: nn::Conv2D,
    blocks: SequentialT,
    head: nn::Linear,
}

impl Net {
    pub(crate) fn new() -> Self {
        let variables = nn::VarStore::new(Device::Cpu);
        let root = variables.root();
        // Each block is a stage of the region around it. Without a region the blocks run plainly.
        let blocks = checkpoint::seq_t().enabled(false);
        let blocks = (0..BLOCKS).fold(blocks, |blocks, at| blocks.add(block(&(&root / at))));
        let stem = convolution(&root / "stem", 1);
        let head = nn::linear(&root / "head", CHANNELS, 10, nn::LinearConfig::default());
        Self { variables, stem, blocks, head }
    }

    /// The mean over these images.
    pub(crate) fn loss(&self, images: &Tensor, classes: &Tensor) -> Result<Tensor, TchError> {
        self.guess(images, true).f_cross_entropy_loss::<Tensor>(classes, None, Reduction::Mean, -100, 0.0)
    }

    fn guess(&self, images: &Tensor, train: bool) -> Tensor {
        let features = images.apply(&self.stem).apply_t(&self.blocks, train);
        features.mean_dim([2, 3].as_slice(), false, Kind::Float).apply(&self.head)
    }

    /// The share of images that are recognized.
    pub(crate) fn accuracy(&self, set: &Set) -> f64 {
        tch::no_grad(|| self.guess(&set.images, false).accuracy_for_logits(&set.classes)).double_value(&[])
    }
}

fn block(path: &nn::Path<'_>) -> impl ModuleT + use<> {
    let convolutions = ["first", "second"].map(|name| convolution(path / name, CHANNELS));
    let config = nn::BatchNormConfig::default;
    let norms = ["norm", "last"].map(|name| nn::batch_norm2d(path / name, CHANNELS, config()));
    nn::func_t(move |images, train| {
        let edges = images.apply(&convolutions[0]).apply_t(&norms[0], train).relu();
        (edges.apply(&convolutions[1]).apply_t(&norms[1], train) + images).relu()
    })
}

fn convolution(path: nn::Path<'_>, channels: i64) -> nn::Conv2D {
    let padded = nn::ConvConfig { padding: 1, bias: false, ..nn::ConvConfig::default() };
    nn::conv2d(path, channels, CHANNELS, 3, padded)
}
