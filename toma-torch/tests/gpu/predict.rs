//! Predicted bytes of steps on a GPU, beside those that they take.

use tch::nn::{self, Module as _, VarStore};
use tch::{Kind, Tensor};
use toma_torch::{Device, dry_run};
use toma_trace::Place;

use crate::table::{Check, Needs};

pub(crate) const CHECKS: &[Check] =
    &[Check { name: "predict: a step with attention runs dry", needs: Needs::Libtorch, run: attention }];

const GPU: tch::Device = tch::Device::Cuda(0);
const WIDTH: i64 = 256;

/// Two layers of self-attention with four heads.
fn loss(layers: &[nn::Linear], input: &Tensor) -> Tensor {
    let attended = layers.iter().fold(input.shallow_clone(), |hidden, layer| {
        let all = layer.forward(&hidden).unflatten(2, [3, 4, -1]).permute([2, 0, 3, 1, 4]);
        let [queries, keys, values] = [0, 1, 2].map(|part| all.get(part));
        let mask = None::<&Tensor>;
        let heads =
            Tensor::scaled_dot_product_attention(&queries, &keys, &values, mask, 0.0, true, None, false);
        hidden + heads.transpose(1, 2).flatten(2, 3)
    });
    attended.square().mean(Kind::Float)
}

fn attention() -> String {
    let variables = VarStore::new(GPU);
    let layer = |at| nn::linear(variables.root() / at, WIDTH, 3 * WIDTH, nn::LinearConfig::default());
    let layers = [layer(0), layer(1)];
    let input = Tensor::randn([8, 100, WIDTH], (Kind::Float, GPU));
    // The first step takes the workspaces of libraries.
    loss(&layers, &input).backward();
    variables.trainable_variables().iter_mut().for_each(Tensor::zero_grad);
    let device = Device::new(GPU);
    let before = device.stats().unwrap().allocated_bytes;
    let trace = dry_run(|| loss(&layers, &input).backward()).unwrap();
    let live = trace.live(&Place::device("cuda", 0));
    let said = live.peak().bytes - live.before();
    device.reset_peaks().unwrap();
    loss(&layers, &input).backward();
    let took = device.stats().unwrap().peak_allocated_bytes - before;
    // Scratch of the backward's kernel is not predicted.
    assert!(said <= took && said >= took / 100 * 97, "{said} bytes predicted, {took} taken");
    format!("{said} bytes predicted, {took} taken")
}
