//! Inventories and line figures of a device, against libtorch's own counters.

use std::cell::RefCell;
use std::process::Command;
use std::thread;

use tch::nn::{self, Module as _, VarStore};
use tch::{Kind, Tensor};
use toma::assert_peak;
use toma::memory::MemorySource as _;
use toma_torch::Device;
use toma_torch::profile::{Column, Depth, Profiler, Stocktaking, inventory};
use toma_trace::Place;

use crate::card::{on_card, record_history, this, write_snapshot};
use crate::child::answer;
use crate::table::{Check, on_gpu, printed_by};

pub(crate) const CHECKS: &[Check] = &[
    on_gpu("profile: an inventory has memlab's and the allocator's figures", of_linear),
    on_gpu("profile: flattened weights are one storage", of_lstm),
    on_gpu("profile: a bound on a step holds to the byte of the counters", bounded),
    on_gpu("profile: lines have memlab's figures and those of the counters", lines),
    on_gpu("profile: what a thread owns is freed as it ends", late),
    on_gpu("profile: a step of the CPU, replayed as CUDA's, has the device's rows", replayed),
    on_card("profile: libtorch's own snapshot has the recording's blocks", || {
        answer(&mut this("profile snapshot", &[]))
    }),
    on_gpu("profile: holders of a full device are reported, in backward too", filled),
];

const GPU: tch::Device = tch::Device::Cuda(0);
const FLOATS: (Kind, tch::Device) = (Kind::Float, GPU);

/// Returns the elements of the named rows, their bytes, and the bytes of all rows, which must equal the allocator's.
fn figures(stocktaking: Stocktaking) -> [u64; 3] {
    let place = Place::device("cuda", 0);
    let taken = stocktaking.device(GPU).take().unwrap();
    let used = taken.used_bytes(&place);
    assert_eq!(used, Device::new(GPU).stats().unwrap().allocated_bytes, "{taken:#}");
    let named = taken.items().iter().filter(|item| item.shape.is_some());
    [taken.elements(&place), named.map(toma_trace::holdings::Item::used_bytes).sum(), used]
}

fn linear() -> (VarStore, nn::Linear, Tensor) {
    let variables = VarStore::new(GPU);
    let layer = nn::linear(variables.root(), 1024, 1024, nn::LinearConfig::default());
    (variables, layer, Tensor::ones([512, 1024], FLOATS))
}

fn of_linear() -> String {
    let (variables, layer, input) = linear();
    let loss = layer.forward(&input).mean(Kind::Float);
    let take = || inventory().variables(&variables).tensor("input", &input).tensor("loss", &loss);
    let [elements, bytes, _] = figures(take());
    assert_eq!([elements, bytes], [1_573_889, 6_296_064]);
    loss.backward();
    let [elements, bytes, all] = figures(take());
    assert_eq!([elements, bytes], [2_623_489, 10_494_464]);
    format!("{bytes} bytes of {all} have names")
}

fn of_lstm() -> String {
    let variables = VarStore::new(GPU);
    let _lstm = nn::lstm(variables.root(), 1024, 1024, nn::RNNConfig::default());
    let taken = inventory().variables(&variables).take().unwrap();
    let rows = taken.items().iter().filter(|item| item.shape.is_some()).count();
    let [elements, bytes, _] = figures(inventory().variables(&variables));
    assert_eq!([elements, bytes], [8_396_800, 33_587_200]);
    format!("{rows} rows")
}

fn bounded() -> String {
    let (_variables, layer, input) = linear();
    let step = || layer.forward(&input).relu().mean(Kind::Float).backward();
    // The step makes gradients and the workspace of cuBLAS.
    step();
    let device = Device::new(GPU);
    let before = device.stats().unwrap().allocated_bytes;
    device.reset_peaks().unwrap();
    step();
    let peak = device.stats().unwrap().peak_allocated_bytes - before;
    assert_peak!(peak, step());
    let mut exceeds = false;
    let printed = printed_by(|| {
        exceeds = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| assert_peak!(peak - 1, step())))
            .is_err();
    });
    assert!(exceeds && printed == 1, "{peak} bytes are not exceeded");
    format!("{peak} bytes")
}

fn zeros() -> [Tensor; 2] {
    [Tensor::zeros([100, 100], FLOATS), Tensor::zeros([100], FLOATS)]
}

#[toma::profile]
fn inner() {
    let _third = zeros();
}

#[toma::profile]
fn outer() {
    let _first = zeros();
    let _second = zeros();
    inner();
}

/// The example from the README of `pytorch_memlab`.
fn lines() -> String {
    let place = Place::device("cuda", 0);
    let device = Device::new(GPU);
    let before = device.stats().unwrap();
    let profiling = Profiler::new().start().unwrap();
    outer();
    let lines = profiling.finish().lines();
    let peak = |function: &str, text: &str| {
        let number = lines.number(function, text).expect("a line with this text");
        lines.figures(function, number, &place).expect("it ran").peak - before.allocated_bytes
    };
    let peaks = [
        peak("outer", "let _first = zeros();"),
        peak("outer", "let _second = zeros();"),
        peak("outer", "inner();"),
        peak("inner", "let _third = zeros();"),
    ];
    let shown = lines.columns([Column::Peak, Column::Reserved]).to_string();
    assert_eq!(peaks.map(|bytes| bytes >> 10), [40, 80, 120, 120], "{shown}");
    assert_eq!(device.stats().unwrap().allocated_bytes, before.allocated_bytes);
    format!("{peaks:?} bytes")
}

/// Runs in a process whose device holds nothing else, and where matrix products take no workspaces.
fn replayed() -> String {
    answer(&mut this("profile replay", &[("CUBLAS_WORKSPACE_CONFIG", ":0:0")]))
}

#[toma::profile]
fn learn(layers: &[nn::Linear], input: &Tensor) {
    let hidden = layers[0].forward(input).relu();
    let output = layers[1].forward(&hidden).tanh();
    let loss = output.square().sum(Kind::Float);
    loss.backward();
}

/// Rise and reserved bytes of each line, of a step on a device.
fn rows_on(device: tch::Device, [rows, inputs, width, outputs]: [i64; 4]) -> Vec<[u64; 2]> {
    if device == GPU {
        Device::new(GPU).release_cached_memory();
    }
    let profiling = Profiler::new().depth(Depth::Events).start().unwrap();
    let variables = VarStore::new(device);
    let root = variables.root();
    let layer = |name, from, to| nn::linear(&root / name, from, to, nn::LinearConfig::default());
    let layers = [layer("first", inputs, width), layer("second", width, outputs)];
    let input = Tensor::ones([rows, inputs], (Kind::Float, device));
    learn(&layers, &input);
    let lines = profiling.finish().lines();
    let lines = if device == GPU { lines } else { lines.as_cuda().unwrap() };
    let texts = [
        "let hidden = layers[0].forward(input).relu();",
        "let output = layers[1].forward(&hidden).tanh();",
        "let loss = output.square().sum(Kind::Float);",
        "loss.backward();",
    ];
    let row = |text| {
        let number = lines.number("learn", text).expect("a line with this text");
        let figures = lines.figures("learn", number, &Place::device("cuda", 0)).expect("it ran");
        [figures.rise, figures.reserved]
    };
    texts.map(row).to_vec()
}

pub(crate) fn replay() {
    let mut random = fastrand::Rng::with_seed(3);
    let nets = 10;
    for _ in 0..nets {
        let sizes = [512, 3000, 3000, 1000].map(|most| random.i64(1..most));
        let [cpu, gpu] = [tch::Device::Cpu, GPU].map(|device| rows_on(device, sizes));
        // The backward of a reduction allocates a block of numbers on one of the two devices only.
        let is_equal = cpu.iter().zip(&gpu).all(|([rise, reserved], [taken, segments])| {
            rise.abs_diff(*taken) <= 512 && reserved == segments
        });
        assert!(is_equal, "{sizes:?}: {cpu:?}, {gpu:?}");
    }
    println!("answer: {nets} nets");
}

/// Reads both files, and compares births and deaths in their order, each death by the number of its birth, and the bytes
/// of the blocks that are alive at the end.
const COMPARE: &str = r#"
import pickle, sys
def read(path):
    with open(path, "rb") as file:
        snapshot = pickle.load(file)
    births, events = {}, []
    for event in snapshot["device_traces"][0]:
        if event["action"] == "alloc":
            births[event["addr"]] = len(events)
            events.append("birth")
        elif event["action"] == "free_requested":
            events.append(births.pop(event["addr"]))
    blocks = (block for segment in snapshot["segments"] if segment["device"] == 0 for block in segment["blocks"])
    return events, sorted(block["size"] for block in blocks if block["state"] == "active_allocated")
ours, official = map(read, sys.argv[1:])
assert ours == official, f"{ours} {official}"
print(len(ours[0]), "births and deaths,", len(ours[1]), "blocks alive")
"#;

/// Runs in a process of its own, whose every block is recorded.
pub(crate) fn compare_snapshots() {
    record_history();
    let profiling = Profiler::new().depth(Depth::Events).start().unwrap();
    let (_variables, layer, input) = linear();
    let layers = [layer, nn::linear(VarStore::new(GPU).root(), 1024, 512, nn::LinearConfig::default())];
    learn(&layers, &input);
    learn(&layers, &input);
    let recording = profiling.finish();
    let folder = tempfile::tempdir().unwrap();
    let [ours, official] = ["ours", "official"].map(|name| folder.path().join(name));
    recording.write_memory_viz(&ours).unwrap();
    write_snapshot(&official);
    let output = Command::new("python3").args(["-c", COMPARE]).args([ours, official]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    println!("answer: {}", String::from_utf8_lossy(&output.stdout));
}

#[toma::profile]
fn step(weight: &Tensor, rows: i64) {
    let squares = Tensor::ones([rows, 1 << 20], FLOATS).mm(weight).square();
    squares.sum(Kind::Float).backward();
}

fn filled() -> String {
    let weight = Tensor::ones([1 << 20, 64], FLOATS).set_requires_grad(true);
    let profiling = Profiler::new().start().unwrap();
    toma::execute::batch(1 << 14, |rows| step(&weight, i64::try_from(rows).unwrap()));
    drop(profiling);
    let filled = toma::report::last().unwrap().filled.expect("the device was filled");
    assert!(filled.contains("cuda:0 holds") && filled.contains("profile.rs:"), "{filled}");
    filled.lines().next().unwrap_or_default().to_owned()
}

/// Runs in a process in which freed memory is overwritten.
fn late() -> String {
    let overwritten = [("GLIBC_TUNABLES", "glibc.malloc.perturb=165")];
    let stayed = answer(&mut this("profile late", &overwritten));
    assert_eq!(stayed, "0 bytes stayed");
    stayed
}

/// Frees a tensor after libtorch's own thread-locals are gone. The allocator looks there for the observers to notify.
pub(crate) fn free_late() {
    thread_local!(static LATE: RefCell<Option<Tensor>> = const { RefCell::new(None) });
    let before = Device::new(GPU).stats().unwrap().allocated_bytes;
    let profiling = Profiler::new().depth(Depth::Events).start().unwrap();
    thread::spawn(|| LATE.with_borrow_mut(|late| *late = Some(Tensor::ones([1 << 20], FLOATS))))
        .join()
        .unwrap();
    drop(profiling);
    println!("answer: {} bytes stayed", Device::new(GPU).stats().unwrap().allocated_bytes - before);
}
