//! Predicted bytes of steps on a GPU, compared with the bytes that the steps take.

use std::panic::AssertUnwindSafe;

use tch::nn::{self, Module as _, ModuleT as _, VarStore};
use tch::{Kind, Tensor};
use toma::cuda;
use toma::memory::MemorySource as _;
use toma::{NoCache, execute, report};
use toma_torch::{Device, DryRun, Prediction, dry_run};
use toma_trace::Place;

use crate::card::{on_card, set_taken};
use crate::table::{Check, on_gpu};

pub(crate) const CHECKS: &[Check] = &[
    on_gpu("predict: a step with attention runs dry", attention),
    on_gpu("predict: a step with batch norm runs dry", norms),
    on_gpu("predict: MobileNet-v2, at any number of images", mobilenet),
    on_gpu("predict: memory of another tensor is refused by name", shared),
    on_gpu("predict: segments that a step reserves", segments),
    on_card("predict: what fits beside fragments, and no more", fits),
];

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
    let figures = [Kind::Float, Kind::BFloat16].map(|kind| {
        let mut variables = VarStore::new(GPU);
        let layer = |at| nn::linear(variables.root() / at, WIDTH, 3 * WIDTH, nn::LinearConfig::default());
        let layers = [layer(0), layer(1)];
        if kind == Kind::BFloat16 {
            variables.bfloat16();
        }
        let input = Tensor::randn([8, 100, WIDTH], (kind, GPU));
        format!("{kind:?}: {}", dry_and_real(&variables, || loss(&layers, &input)))
    });
    figures.join("; ")
}

/// The kernels are cuDNN's where it is there.
fn norms() -> String {
    let variables = VarStore::new(GPU);
    let layer = |at| nn::batch_norm2d(variables.root() / at, 64, nn::BatchNormConfig::default());
    let layers = [layer(0), layer(1), layer(2)];
    let input = Tensor::randn([16, 64, 64, 64], (Kind::Float, GPU)).set_requires_grad(true);
    dry_and_real(&variables, || {
        layers
            .iter()
            .fold(input.shallow_clone(), |hidden, layer| layer.forward_t(&hidden, true).relu())
            .mean(Kind::Float)
    })
}

/// Compares the peak of a dry step with that of a real one.
fn dry_and_real(variables: &VarStore, loss: impl Fn() -> Tensor) -> String {
    // The first step takes the workspaces of libraries.
    loss().backward();
    variables.trainable_variables().iter_mut().for_each(Tensor::zero_grad);
    let trace = dry_run(|| loss().backward()).unwrap();
    let live = trace.live(&Place::device("cuda", 0));
    let predicted = live.peak().bytes - live.before();
    let took = taken(|| loss().backward());
    assert!(
        predicted >= took - took / 200 && predicted <= took + took / 100,
        "{predicted} bytes predicted, {took} taken"
    );
    format!("{predicted} bytes predicted, {took} taken")
}

/// Returns the bytes that a step takes at its peak.
fn taken(step: impl FnOnce()) -> u64 {
    let device = Device::new(GPU);
    let before = device.stats().unwrap().allocated_bytes;
    device.reset_peaks().unwrap();
    step();
    device.stats().unwrap().peak_allocated_bytes - before
}

/// Its operators differ with the number of images.
fn mobilenet() -> String {
    let (variables, device) = (VarStore::new(GPU), Device::new(GPU));
    let net = tch::vision::mobilenet::v2(&variables.root(), 10);
    let learn = |count: usize| {
        let images = Tensor::ones([i64::try_from(count).unwrap(), 3, 64, 64], (Kind::Float, GPU));
        net.forward_t(&images, true).square().mean(Kind::Float).backward();
    };
    learn(2);
    let prediction = toma_torch::predict(&device, learn).unwrap();
    let figures = [9, 21, 48].map(|count| {
        let predicted = prediction.clone().confirm(count, learn).unwrap().needs_bytes(count);
        // Parts of other steps' segments stay uncut.
        device.release_cached_memory();
        let took = taken(|| learn(count));
        assert!(
            predicted >= took - took / 100 && predicted <= took + took / 50,
            "{count} images: {predicted} bytes predicted, {took} taken"
        );
        format!("{count} images: {predicted} of {took} bytes")
    });
    figures.join("; ")
}

/// CUDA's code reads the tensor before it lets a second one share its memory.
fn shared() -> String {
    let floats = (Kind::Float, GPU);
    let step = || {
        let (tensor, source) = (Tensor::zeros([2], floats), Tensor::ones([3, 4], floats));
        let _ = tensor.f_set_source_tensor(&source);
    };
    let error = dry_run(step).unwrap_err().to_string();
    assert!(error.contains("aten::set_") && error.contains("reads memory"), "{error}");
    error
}

/// Trains a perceptron whose layers have different sizes, so that a block does not fit the gap that another one left.
fn learn(layers: &[nn::Linear], rows: usize) -> Tensor {
    let input = Tensor::ones([i64::try_from(rows).unwrap(), WIDTHS[0]], (Kind::Float, GPU));
    let loss = layers.iter().fold(input, |hidden, layer| layer.forward(&hidden).relu()).mean(Kind::Float);
    loss.f_backward().unwrap();
    loss
}

const WIDTHS: [i64; 5] = [300, 1500, 700, 2500, 10];

fn perceptron(variables: &VarStore) -> Vec<nn::Linear> {
    let widths = WIDTHS.windows(2).enumerate();
    let layer = |(at, of): (usize, &[i64])| {
        nn::linear(variables.root() / at, of[0], of[1], nn::LinearConfig::default())
    };
    widths.map(layer).collect()
}

/// Returns the prediction of a step that has run before.
fn predicted(layers: &[nn::Linear]) -> Prediction {
    drop(learn(layers, 1));
    toma_torch::predict(&Device::new(GPU), |rows| learn(layers, rows)).unwrap()
}

/// Allocated and reserved bytes, predicted and counted.
fn segments() -> String {
    let variables = VarStore::new(GPU);
    let layers = perceptron(&variables);
    let (device, prediction) = (Device::new(GPU), predicted(&layers));
    let mut figures = Vec::new();
    for rows in [5003, 12_000] {
        let prediction = prediction.clone().confirm(rows, |rows| learn(&layers, rows)).unwrap();
        device.release_cached_memory();
        let [needs, segments] = [prediction.needs_bytes(rows), prediction.reserves_bytes(rows)];
        let before = device.stats().unwrap();
        device.reset_peaks().unwrap();
        drop(learn(&layers, rows));
        let after = device.stats().unwrap();
        let took = after.peak_allocated_bytes - before.allocated_bytes;
        let reserved = after.peak_reserved_bytes - before.reserved_bytes;
        figures.push(format!("{rows} rows: {needs} of {took}, {segments} of {reserved}"));
        assert!(needs >= took - took / 200 && needs <= took + took / 100, "{figures:?}");
        assert!(reserved.abs_diff(segments) <= reserved / 50, "{figures:?}");
    }
    figures.join("; ")
}

/// Steps on cards of random size, on which random tensors have left fragments.
fn fits() -> String {
    let variables = VarStore::new(GPU);
    let layers = perceptron(&variables);
    let device = Device::new(GPU);
    drop(learn(&layers, 1));
    let steps = std::env::var("TOMA_STEPS").map_or(12, |steps| steps.parse().unwrap());
    let mut random = fastrand::Rng::with_seed(5);
    let (mut refused, mut above) = (0, Vec::new());
    let total = || cuda::Device::new(0).unwrap().read().unwrap().total_bytes;
    for step in 0..steps {
        set_taken(0);
        device.release_cached_memory();
        let mut tensors: Vec<_> = (0..40).map(|_| bytes(random.i64(1..4 << 20))).collect();
        random.shuffle(&mut tensors);
        tensors.truncate(random.usize(0..20));
        let stats = device.stats().unwrap();
        set_taken(total() - stats.reserved_bytes - random.u64(0..200 << 20));
        // The next reading then asks the driver for its free memory again.
        device.release_cached_memory();
        let free_bytes = device.read().unwrap().free_bytes;
        let form = execute::with::<NoCache>().device(&device).predict(&DryRun).key(step);
        form.batch(1 << 16, |rows| drop(learn(&layers, rows)));
        let report = report::last().unwrap();
        let Some(size) = report.predicted.map(|predicted| predicted.size) else {
            refused += 1;
            continue;
        };
        assert_eq!(report.out_of_memory, 0, "step {step}: {size} rows of {free_bytes} bytes");
        // The attempt begins from the same segments.
        device.release_cached_memory();
        let too_many = size * 100 / 93 + 1;
        if std::panic::catch_unwind(AssertUnwindSafe(|| drop(learn(&layers, too_many)))).is_ok() {
            above.push(format!("step {step}: {size} rows of {free_bytes} bytes"));
        }
        drop(tensors);
    }
    set_taken(0);
    assert!(
        refused * 4 < steps && above.len() * 50 <= steps,
        "{refused} without a size; below 93 %: {above:?}"
    );
    format!("{steps} steps, {refused} without a size, {} below 93 % of the largest", above.len())
}

fn bytes(count: i64) -> Tensor {
    Tensor::empty([count], (Kind::Uint8, GPU))
}
