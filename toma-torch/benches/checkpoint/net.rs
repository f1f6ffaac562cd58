//! ResNet-152 as tch builds it, with visible layers: each block is a stage, and so are the stem and the head.

use tch::Tensor;
use tch::nn::{self, BatchNorm, Conv2D, ModuleT, Path};
use toma_torch::checkpoint::{self, SequentialT};

/// Blocks of each group.
pub(crate) const GROUPS: [usize; 4] = [3, 8, 36, 3];

/// Makes the net. Its layers are stages within a region; without one it runs plainly.
pub(crate) fn resnet152(path: &Path<'_>, classes: i64) -> SequentialT {
    let mut net = checkpoint::seq_t().enabled(false).add(stem(path));
    let mut channels = 64;
    for (group, blocks) in (0..).zip(GROUPS) {
        let width = 64 << group;
        for block in 0..blocks {
            let stride = if group > 0 && block == 0 { 2 } else { 1 };
            net = net.add(bottleneck(&(path / format!("layer{group}") / block), channels, width, stride));
            channels = 4 * width;
        }
    }
    let head = nn::linear(path / "fc", channels, classes, nn::LinearConfig::default());
    net.add_fn(move |images| images.adaptive_avg_pool2d([1, 1]).flat_view().apply(&head))
}

fn stem(path: &Path<'_>) -> impl ModuleT + use<> {
    let (edges, norm) = (convolution(path / "conv1", [3, 64], 7, 2), norm(path / "bn1", 64));
    nn::func_t(move |images, train| {
        images.apply(&edges).apply_t(&norm, train).relu().max_pool2d([3, 3], [2, 2], [1, 1], [1, 1], false)
    })
}

fn bottleneck(path: &Path<'_>, channels: i64, width: i64, stride: i64) -> impl ModuleT + use<> {
    let wide = 4 * width;
    let narrow = convolution(path / "conv1", [channels, width], 1, 1);
    let edges = convolution(path / "conv2", [width, width], 3, stride);
    let widen = convolution(path / "conv3", [width, wide], 1, 1);
    let norms = [("bn1", width), ("bn2", width), ("bn3", wide)].map(|(name, size)| norm(path / name, size));
    let shortcut = (stride != 1 || channels != wide).then(|| shortcut(path, [channels, wide], stride));
    nn::func_t(move |images, train| {
        let first = images.apply(&narrow).apply_t(&norms[0], train).relu();
        let second = first.apply(&edges).apply_t(&norms[1], train).relu();
        let third = second.apply(&widen).apply_t(&norms[2], train);
        drop((first, second));
        let images = shortcut.as_ref().map_or_else(|| images.shallow_clone(), |it| images.apply_t(it, train));
        (images + third).relu()
    })
}

fn shortcut(path: &Path<'_>, channels: [i64; 2], stride: i64) -> nn::SequentialT {
    let path = path / "downsample";
    nn::seq_t().add(convolution(&path / "0", channels, 1, stride)).add(norm(&path / "1", channels[1]))
}

fn convolution(path: Path<'_>, [from, to]: [i64; 2], size: i64, stride: i64) -> Conv2D {
    let config = nn::ConvConfig { stride, padding: size / 2, bias: false, ..nn::ConvConfig::default() };
    nn::conv2d(path, from, to, size, config)
}

fn norm(path: Path<'_>, channels: i64) -> BatchNorm {
    nn::batch_norm2d(path, channels, nn::BatchNormConfig::default())
}

/// A step, with or without a region around its forward.
pub(crate) struct Step<M> {
    pub(crate) net: M,
    pub(crate) images: Tensor,
    pub(crate) classes: Tensor,
}

impl<M: ModuleT> Step<M> {
    pub(crate) fn forward(&self) -> Tensor {
        self.net.forward_t(&self.images, true)
    }

    /// Adds the gradients of the loss to existing ones, and returns the loss.
    pub(crate) fn learn(&self, logits: Tensor) -> f64 {
        let loss = logits.cross_entropy_for_logits(&self.classes);
        drop(logits);
        loss.backward();
        loss.double_value(&[])
    }
}
