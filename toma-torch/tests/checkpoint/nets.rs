//! Nets whose regions are hard to repeat.

use tch::nn::{self, Module as _, ModuleT as _, VarStore};
use tch::{Device, Kind, Tensor};
use toma_torch::checkpoint;

use crate::kit::Net;

fn randn(sizes: &[i64]) -> Tensor {
    Tensor::randn(sizes, (Kind::Float, Device::Cpu))
}

/// Residual blocks with batch norm, dropout and operators in place.
pub fn residual() -> Net {
    let vs = VarStore::new(Device::Cpu);
    tch::manual_seed(1);
    let p = vs.root();
    let conv = |p: nn::Path, i, o| nn::conv2d(p, i, o, 3, nn::ConvConfig { padding: 1, ..Default::default() });
    let stem = conv(&p / "stem", 3, 8);
    let blocks = (0..4).fold(checkpoint::seq_t(), |blocks, at| {
        let p = &p / at;
        let (first, second) = (conv(&p / "a", 8, 8), conv(&p / "b", 8, 8));
        let norms = [nn::batch_norm2d(&p / "x", 8, Default::default()), nn::batch_norm2d(&p / "y", 8, Default::default())];
        blocks.add_fn_t(move |x, train| {
            let y = x.apply(&first).apply_t(&norms[0], train).relu_().dropout(0.2, train);
            (y.apply(&second).apply_t(&norms[1], train) + x).relu_()
        })
    });
    let head = nn::linear(&p / "head", 8, 5, Default::default());
    let images = randn(&[4, 3, 12, 12]);
    Net::new("residual", vs, move || {
        images.apply(&stem).apply_t(&blocks, true).adaptive_avg_pool2d([1, 1]).flatten(1, -1).apply(&head)
    })
}
