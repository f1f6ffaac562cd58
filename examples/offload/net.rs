//! Two nets for digits, of images × 1 × 8 × 8.

use tch::nn::{self, Module as _, ModuleT};
use tch::{Device, Kind, Reduction, TchError, Tensor};

use crate::Which;

const CHANNELS: i64 = 16;
const BLOCKS: i64 = 8;
const WIDTH: i64 = 1024;
const LAYERS: i64 = 4;

pub(crate) struct Net {
    pub(crate) variables: nn::VarStore,
    layers: Box<dyn ModuleT>,
}

impl Net {
    pub(crate) fn new(which: Which) -> Self {
        let variables = nn::VarStore::new(Device::Cpu);
        let layers: Box<dyn ModuleT> = match which {
            Which::Residual => Box::new(residual(&variables.root())),
            Which::Perceptron => Box::new(perceptron(&variables.root())),
        };
        Self { variables, layers }
    }

    /// The mean over these images.
    pub(crate) fn loss(&self, images: &Tensor, classes: &Tensor) -> Result<Tensor, TchError> {
        let guess = self.layers.forward_t(images, true);
        guess.f_cross_entropy_loss::<Tensor>(classes, None, Reduction::Mean, -100, 0.0)
    }
}

fn residual(root: &nn::Path<'_>) -> impl ModuleT + use<> {
    let stem = convolution(root / "stem", 1);
    let blocks: Vec<_> = (0..BLOCKS).map(|at| block(&(root / at))).collect();
    let head = nn::linear(root / "head", CHANNELS, 10, nn::LinearConfig::default());
    nn::func_t(move |images, train| {
        let features =
            blocks.iter().fold(images.apply(&stem), |features, block| features.apply_t(block, train));
        features.mean_dim([2, 3].as_slice(), false, Kind::Float).apply(&head)
    })
}

fn block(path: &nn::Path<'_>) -> impl ModuleT + use<> {
    let convolutions = ["first", "second"].map(|name| convolution(path / name, CHANNELS));
    let norms =
        ["norm", "last"].map(|name| nn::batch_norm2d(path / name, CHANNELS, nn::BatchNormConfig::default()));
    nn::func_t(move |images, train| {
        let edges = images.apply(&convolutions[0]).apply_t(&norms[0], train).relu();
        (edges.apply(&convolutions[1]).apply_t(&norms[1], train) + images).relu()
    })
}

fn convolution(path: nn::Path<'_>, channels: i64) -> nn::Conv2D {
    let padded = nn::ConvConfig { padding: 1, bias: false, ..nn::ConvConfig::default() };
    nn::conv2d(path, channels, CHANNELS, 3, padded)
}

fn perceptron(root: &nn::Path<'_>) -> impl ModuleT + use<> {
    let sizes = |at| (if at == 0 { 64 } else { WIDTH }, if at + 1 == LAYERS { 10 } else { WIDTH });
    let layer = |at| nn::linear(root / at, sizes(at).0, sizes(at).1, nn::LinearConfig::default());
    let layers: Vec<_> = (0..LAYERS).map(layer).collect();
    nn::func_t(move |images, _| {
        let (last, hidden) = layers.split_last().expect("there are layers");
        let features =
            hidden.iter().fold(images.flatten(1, -1), |features, layer| features.apply(layer).relu());
        last.forward(&features)
    })
}
