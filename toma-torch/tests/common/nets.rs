//! Six nets to train, for batches of a size that the program chooses.

use tch::nn::{self, Module as _, ModuleT, Path, RNN as _};
use tch::{Kind, Tensor};

use super::IMAGES;

/// A net with its input, its loss and its variables.
pub(crate) struct Net {
    pub(crate) name: &'static str,
    pub(crate) variables: nn::VarStore,
    loss: Box<dyn Fn() -> Tensor>,
}

impl Net {
    fn new<F: Fn() -> Tensor + 'static>(name: &'static str, make: impl FnOnce(&Path<'_>) -> F) -> Self {
        tch::manual_seed(7);
        let variables = nn::VarStore::new(device());
        let loss = Box::new(make(&variables.root()));
        Self { name, variables, loss }
    }

    pub(crate) fn loss(&self) -> Tensor {
        (self.loss)()
    }
}

pub(crate) const NETS: [fn() -> Net; 6] = [perceptron, transformer, resnet20, convolutions, unet, lstm];

/// Returns the device of `ground.rs`, a module that not every user of this file includes.
fn device() -> tch::Device {
    let is_card = std::env::var_os("TOMA_TEST_DEVICE").is_some_and(|device| device == "cuda");
    if is_card { tch::Device::Cuda(0) } else { tch::Device::Cpu }
}

fn classes(count: i64, rows: &[i64]) -> Tensor {
    Tensor::randint(count, rows, (Kind::Int64, device()))
}

fn linear(p: &Path<'_>, name: &str, from: i64, to: i64) -> nn::Linear {
    nn::linear(p / name, from, to, nn::LinearConfig::default())
}

fn conv(p: Path<'_>, from: i64, to: i64, stride: i64) -> nn::Conv2D {
    nn::conv2d(p, from, to, 3, nn::ConvConfig { padding: 1, stride, bias: false, ..Default::default() })
}

fn norm(p: Path<'_>, channels: i64) -> nn::BatchNorm {
    nn::batch_norm2d(p, channels, nn::BatchNormConfig::default())
}

/// Eight layers of width 512, for 256 rows.
pub(crate) fn perceptron() -> Net {
    Net::new("perceptron", |p| {
        let layers: Vec<_> = (0..8).map(|at| linear(p, &format!("layer{at}"), 512, 512)).collect();
        let (input, target) = (Tensor::randn([256, 512], (Kind::Float, device())), classes(512, &[256]));
        move || {
            let (last, hidden) = layers.split_last().unwrap();
            let output = hidden.iter().fold(input.shallow_clone(), |x, layer| x.apply(layer).relu());
            output.apply(last).cross_entropy_for_logits(&target)
        }
    })
}

/// Four layers of width 256, for a quarter of `IMAGES` rows of 64 words.
pub(crate) fn transformer() -> Net {
    const SIZE: i64 = 256;
    Net::new("transformer", |p| {
        let table = nn::embedding(p / "table", 1000, SIZE, nn::EmbeddingConfig::default());
        let blocks: Vec<_> = (0..4)
            .map(|at| {
                let p = p / at;
                let norm = |name| nn::layer_norm(&p / name, vec![SIZE], nn::LayerNormConfig::default());
                let linears = [("qkv", 1, 3), ("out", 1, 1), ("wide", 1, 4), ("narrow", 4, 1)]
                    .map(|(name, from, to)| linear(&p, name, from * SIZE, to * SIZE));
                ([norm("first"), norm("second")], linears)
            })
            .collect();
        let head = linear(p, "head", SIZE, 1000);
        let (words, target) = (classes(1000, &[IMAGES / 4, 64]), classes(1000, &[IMAGES * 16]));
        move || {
            let mut x = table.forward(&words);
            for (norms, [qkv, out, wide, narrow]) in &blocks {
                let attended = attention(&x.apply(&norms[0]).apply(qkv), SIZE).apply(out);
                x = attended.dropout(0.1, true) + x;
                let wider = x.apply(&norms[1]).apply(wide).gelu("none");
                x = wider.apply(narrow).dropout(0.1, true) + x;
            }
            x.apply(&head).reshape([-1, 1000]).cross_entropy_for_logits(&target)
        }
    })
}

/// Attention with eight heads.
fn attention(joined: &Tensor, size: i64) -> Tensor {
    let heads = joined.reshape([-1, 64, 3, 8, size / 8]).permute([2, 0, 3, 1, 4]).unbind(0);
    let scores = heads[0].matmul(&heads[1].transpose(-2, -1)) * 0.18;
    let attended = scores.softmax(-1, Kind::Float).dropout(0.1, true).matmul(&heads[2]);
    attended.transpose(1, 2).reshape([-1, 64, size])
}

/// ResNet-20 for `IMAGES` images of 32 x 32.
pub(crate) fn resnet20() -> Net {
    Net::new("resnet20", |p| {
        let (stem, first) = (conv(p / "stem", 3, 16, 1), norm(p / "norm", 16));
        let sizes = [(16, 16, 1), (16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 32, 1)];
        let more = [(32, 64, 2), (64, 64, 1), (64, 64, 1)];
        let blocks: Vec<_> =
            sizes.into_iter().chain(more).enumerate().map(|(at, of)| block(&(p / at), of)).collect();
        let head = linear(p, "head", 64, 10);
        let (images, target) =
            (Tensor::randn([IMAGES, 3, 32, 32], (Kind::Float, device())), classes(10, &[IMAGES]));
        move || {
            let x = images.apply(&stem).apply_t(&first, true).relu();
            let x = blocks.iter().fold(x, |x, block| x.apply_t(block, true));
            x.adaptive_avg_pool2d([1, 1]).flatten(1, -1).apply(&head).cross_entropy_for_logits(&target)
        }
    })
}

fn block(p: &Path<'_>, (from, to, stride): (i64, i64, i64)) -> impl ModuleT + use<> {
    let convs = [conv(p / "a", from, to, stride), conv(p / "b", to, to, 1)];
    let norms = [norm(p / "x", to), norm(p / "y", to)];
    let config = nn::ConvConfig { stride, bias: false, ..Default::default() };
    let around = (stride > 1).then(|| (nn::conv2d(p / "c", from, to, 1, config), norm(p / "z", to)));
    nn::func_t(move |x, train| {
        let y = x.apply(&convs[0]).apply_t(&norms[0], train).relu();
        let y = y.apply(&convs[1]).apply_t(&norms[1], train);
        let x = around.as_ref().map_or_else(|| x.shallow_clone(), |(c, z)| x.apply(c).apply_t(z, train));
        (x + y).relu()
    })
}

/// Three convolutions with batch norm, for twice `IMAGES` images.
pub(crate) fn convolutions() -> Net {
    Net::new("convolutions", |p| {
        let layers: Vec<_> = [(3, 16), (16, 32), (32, 64)]
            .into_iter()
            .map(|(from, to)| (conv(p / "conv" / to, from, to, 1), norm(p / "norm" / to, to)))
            .collect();
        let head = linear(p, "head", 64 * 16, 10);
        let (images, target) =
            (Tensor::randn([IMAGES * 2, 3, 32, 32], (Kind::Float, device())), classes(10, &[IMAGES * 2]));
        move || {
            let x = layers.iter().fold(images.shallow_clone(), |x, (conv, norm)| {
                x.apply(conv).apply_t(norm, true).relu().max_pool2d_default(2)
            });
            x.flatten(1, -1).apply(&head).cross_entropy_for_logits(&target)
        }
    })
}

/// A U-Net of widths 16, 32 and 64, for a quarter of `IMAGES` images of 64 x 64.
pub(crate) fn unet() -> Net {
    Net::new("unet", |p| {
        let double =
            |name: &str, from, to| [conv(p / name / "a", from, to, 1), conv(p / name / "b", to, to, 1)];
        let down = [double("down0", 3, 16), double("down1", 16, 32)];
        let bottom = double("bottom", 32, 64);
        let up = [double("up1", 96, 32), double("up0", 48, 16)];
        let head = conv(p / "head", 16, 1, 1);
        let twice = |x: &Tensor, convs: &[nn::Conv2D; 2]| {
            convs.iter().fold(x.shallow_clone(), |x, c| x.apply(c).relu())
        };
        let (images, target) = (
            Tensor::randn([IMAGES / 4, 3, 64, 64], (Kind::Float, device())),
            Tensor::randn([IMAGES / 4, 1, 64, 64], (Kind::Float, device())),
        );
        move || {
            let wide = twice(&images, &down[0]);
            let narrow = twice(&wide.max_pool2d_default(2), &down[1]);
            let mut x = twice(&narrow.max_pool2d_default(2), &bottom);
            for (skipped, convs) in [&narrow, &wide].into_iter().zip(&up) {
                let size = skipped.size();
                let larger = x.upsample_nearest2d([size[2], size[3]], None, None);
                x = twice(&Tensor::cat(&[&larger, skipped], 1), convs);
            }
            x.apply(&head).mse_loss(&target, tch::Reduction::Mean)
        }
    })
}

/// An LSTM of width 128, for twice `IMAGES` rows of 40 words.
pub(crate) fn lstm() -> Net {
    Net::new("lstm", |p| {
        let config = nn::RNNConfig { train: true, ..Default::default() };
        let lstm = nn::lstm(p / "lstm", 128, 128, config);
        let head = linear(p, "head", 128, 10);
        let (words, target) =
            (Tensor::randn([IMAGES * 2, 40, 128], (Kind::Float, device())), classes(10, &[IMAGES * 2]));
        move || {
            let (output, _) = lstm.seq(&words);
            output.select(1, -1).apply(&head).cross_entropy_for_logits(&target)
        }
    })
}
