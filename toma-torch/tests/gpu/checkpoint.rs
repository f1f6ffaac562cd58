//! Regions on a device: bits of the plain step, and bytes by the allocator's own counters.

use tch::nn::{self, ModuleT, RNN as _, VarStore};
use tch::{Kind, Tensor};
use toma::memory::MemorySource as _;
use toma_torch::checkpoint::{self, Solver};
use toma_torch::{Device, RngState};

use crate::card::{capture, on_card};
use crate::table::{Check, on_gpu};

pub(crate) const CHECKS: &[Check] = &[
    on_gpu("checkpoint: ResNet-152 has the plain step's bits", resnet),
    on_gpu("checkpoint: a stack of GPT blocks has them", blocks),
    // Runs without values, which the generator's state does not need.
    on_gpu("checkpoint: a stack with dropout draws as often", blocks),
    on_gpu("checkpoint: recurrent layers with dropout have them", recurrent),
    on_card("checkpoint: a region in the capture of a graph is refused", captured),
];

const GPU: tch::Device = tch::Device::Cuda(0);
const FLOATS: (Kind, tch::Device) = (Kind::Float, GPU);

/// Returns the gradients of a step, on the host, the state of the generator after it, and the step's peaks of allocated
/// and reserved bytes beyond those before.
fn step(vs: &VarStore, forward: impl Fn() -> Tensor) -> ((Vec<Tensor>, RngState), [u64; 2]) {
    let device = Device::new(GPU);
    device.release_cached_memory();
    device.reset_peaks().unwrap();
    let before = device.stats().unwrap();
    tch::manual_seed(5);
    tch::Cuda::manual_seed_all(5);
    forward().square().mean(Kind::Float).backward();
    let stats = device.stats().unwrap();
    let peaks = [
        stats.peak_allocated_bytes - before.allocated_bytes,
        stats.peak_reserved_bytes - before.reserved_bytes,
    ];
    let mut variables: Vec<_> = vs.variables().into_iter().collect();
    variables.sort_by(|(a, _), (b, _)| a.cmp(b));
    let gradients = variables.iter().map(|(_, variable)| variable.grad()).filter(Tensor::defined);
    let copies = gradients.map(|mut gradient| {
        let copy = gradient.to_device(tch::Device::Cpu);
        let _ = gradient.zero_();
        copy
    });
    ((copies.collect(), RngState::of(GPU).unwrap()), peaks)
}

/// Bits are compared only if two plain steps agree bit for bit.
fn compared(vs: &VarStore, forward: impl Fn() -> Tensor) -> String {
    let _ = step(vs, &forward);
    let (plain, plain_peak) = step(vs, &forward);
    let is_repeatable = step(vs, &forward).0 == plain;
    let form = checkpoint::with().name("gpu");
    let (first, first_peak) = step(vs, || form.region(&forward));
    let costs = form.known().unwrap();
    let leanest = costs.plan(costs.least_bytes(), Solver::Auto).unwrap();
    let (planned, planned_peak) = step(vs, || form.plan(&leanest).region(&forward));
    assert!(
        first.1 == plain.1 && planned.1 == plain.1,
        "another state of the generator than after the plain step"
    );
    assert!(!is_repeatable || (first == plain && planned == plain), "other bits than the plain step");
    let repeatable = if is_repeatable { "equal" } else { "not compared: the plain step differs from itself" };
    let planned_bytes = leanest.peak_bytes();
    // A block that is not split counts whole: up to 1 MiB more, which is much of a small step.
    let [taken, _] = planned_peak;
    assert!(planned_bytes.abs_diff(taken) <= taken / 10, "{taken} bytes of {planned_bytes} planned");
    format!(
        "bits {repeatable}; bytes allocated and reserved at most: plain {plain_peak:?}, first {first_peak:?}, least \
         {planned_peak:?}, planned {planned_bytes}"
    )
}

fn resnet() -> String {
    let vs = VarStore::new(GPU);
    let net = tch::vision::resnet::resnet152(&vs.root(), 10);
    let images = Tensor::randn([4, 3, 96, 96], FLOATS);
    compared(&vs, || net.forward_t(&images, true))
}

fn blocks() -> String {
    let vs = VarStore::new(GPU);
    let net = (0..6).fold(checkpoint::seq_t(), |net, at| {
        let p = vs.root() / at;
        let norm = nn::layer_norm(&p / "norm", vec![64], nn::LayerNormConfig::default());
        let qkv = nn::linear(&p / "qkv", 64, 192, nn::LinearConfig::default());
        let out = nn::linear(&p / "out", 64, 64, nn::LinearConfig::default());
        net.add_fn_t(move |x, train| {
            let heads =
                x.apply(&norm).apply(&qkv).reshape([4, 32, 3, 4, 16]).permute([2, 0, 3, 1, 4]).unbind(0);
            let [query, key, value] = &heads[..] else { unreachable!("three were stacked") };
            let none = None::<Tensor>;
            let attended =
                Tensor::scaled_dot_product_attention(query, key, value, none, 0.0, true, None, false);
            let mixed = attended.transpose(1, 2).reshape([4, 32, 64]).apply(&out);
            x + mixed.dropout(0.1, train)
        })
    });
    let input = Tensor::randn([4, 32, 64], FLOATS);
    compared(&vs, || net.forward_t(&input, true))
}

/// cuDNN draws dropout from a state of its own, so these stages are kept.
fn recurrent() -> String {
    let vs = VarStore::new(GPU);
    let p = vs.root();
    let config = nn::RNNConfig { num_layers: 2, dropout: 0.3, train: true, ..Default::default() };
    let (lstm, gru) = (nn::lstm(&p / "lstm", 64, 128, config), nn::gru(&p / "gru", 128, 64, config));
    let layer = nn::linear(&p / "layer", 64, 64, nn::LinearConfig::default());
    let words = Tensor::randn([64, 50, 64], FLOATS);
    let figures = compared(&vs, || {
        let (hidden, _) = lstm.seq(&words.apply(&layer).tanh());
        checkpoint::cut();
        let (hidden, _) = gru.seq(&hidden);
        checkpoint::cut();
        hidden.tanh()
    });
    let last = checkpoint::last().unwrap();
    let kept = last.kept();
    assert!(kept.len() == 2 && kept.iter().all(|why| why.contains("a state of cuDNN")), "{kept:?}");
    figures
}

fn captured() -> String {
    let weight = Tensor::ones([4], FLOATS).set_requires_grad(true);
    let region = || checkpoint::with().f_region(|| weight.f_mul_scalar(2.0));
    capture(true);
    let refused = region();
    capture(false);
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("a graph of CUDA is being captured"), "{error}");
    region().unwrap().sum(Kind::Float).backward();
    assert_eq!(weight.grad().numel(), 4);
    error
}
