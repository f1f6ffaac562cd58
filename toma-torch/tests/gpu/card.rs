//! Checks that only the paper card allows: its settings, and figures which show that libtorch's allocator runs on it.

#![expect(unsafe_code, reason = "the card has functions for tests, which are found by name")]

use std::env;
use std::ffi::{CString, c_char};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Output};

use libloading::os::unix::Library;
use tch::nn::{self, Module as _, ModuleT as _, VarStore};
use tch::{Kind, TchError, Tensor};
use toma::memory::MemorySource as _;
use toma::{GlobalCache, NoCache, execute, report};
use toma_torch::{Backward as _, Device, DryRun, Loss};

use crate::child::{TASK, answer};
use crate::table::{Check, Needs, on_gpu};
use crate::{LIMIT, transformer};

pub(crate) const CHECKS: &[Check] = &[
    on_gpu("card: a MiB and a byte, as the allocator rounds it", rounded),
    on_card("card: a step has its bytes at both capabilities", steps),
    on_card("predict: a first step, with the workspaces of libraries", first_steps),
    on_card("predict: transformers train in little memory at once", transformers),
    on_card("predict: texts of many lengths fit into 160 MB", texts),
    on_card("card: an injected failure is retried by the allocator", injected),
    on_card("card: held events keep a pinned block", held),
    on_card("card: without values, checks of values fail", without_values),
    on_card("card: an operator that the CPU lacks is named", unserved),
    on_card("card: settings that mean nothing are refused", refused),
    on_card("card: another CUDA runtime is refused", another),
];

pub(crate) const fn on_card(name: &'static str, run: fn() -> String) -> Check {
    Check { name, needs: Needs::Card, run }
}

const GPU: tch::Device = tch::Device::Cuda(0);
const FLOATS: (Kind, tch::Device) = (Kind::Float, GPU);

/// Returns true if this program runs on a paper card.
pub(crate) fn is_there() -> bool {
    // SAFETY: the function is only looked up.
    unsafe { Library::this().get::<extern "C" fn() -> u64>(b"paper_mallocs") }.is_ok()
}

/// Lets `times` allocations from the driver fail, beginning with the one at `place` among those to come; none at 0.
pub(crate) fn fail_from(place: i64, times: i64) {
    // SAFETY: the signature is that of `card/runtime/settings.c`.
    unsafe { Library::this().get::<extern "C" fn(i64, i64)>(b"paper_fail_malloc").unwrap()(place, times) }
}

/// Charges this many bytes of the first card to other processes.
pub(crate) fn set_taken(bytes: u64) {
    // SAFETY: the signature is that of `card/runtime/settings.c`.
    unsafe { Library::this().get::<extern "C" fn(i32, u64)>(b"paper_set_taken").unwrap()(0, bytes) }
}

/// Turns the values of kernels on or off, if the card computes any.
pub(crate) fn set_values(on: bool) {
    // SAFETY: the signature is that of `card/values/values.cpp`.
    unsafe { Library::this().get::<extern "C" fn(i32)>(b"paper_set_values").unwrap()(i32::from(on)) }
}

/// Begins or ends the capture of a graph on this thread.
pub(crate) fn capture(begins: bool) {
    // SAFETY: the signature is that of `card/values/values.cpp`.
    unsafe { Library::this().get::<extern "C" fn(i32)>(b"paper_capture").unwrap()(i32::from(begins)) }
}

/// Lets libtorch record what its allocator does.
pub(crate) fn record_history() {
    // SAFETY: the signature is that of `card/values/values.cpp`.
    unsafe { Library::this().get::<extern "C" fn()>(b"paper_record_history").unwrap()() }
}

/// Writes libtorch's own snapshot.
pub(crate) fn write_snapshot(path: &Path) {
    let path = CString::new(path.as_os_str().as_bytes()).expect("a path without a zero");
    // SAFETY: the signature is that of `card/values/values.cpp`.
    let write = unsafe { Library::this().get::<extern "C" fn(*const c_char)>(b"paper_write_snapshot") };
    write.unwrap()(path.as_ptr());
}

/// Bytes of the host that are pinned.
pub(crate) fn registered_bytes() -> u64 {
    // SAFETY: the signature is that of `card/runtime/memory.c`.
    unsafe { Library::this().get::<extern "C" fn() -> u64>(b"paper_registered_bytes").unwrap()() }
}

fn hold_events(holds: bool) {
    // SAFETY: the signature is that of `card/runtime/settings.c`.
    unsafe { Library::this().get::<extern "C" fn(i32)>(b"paper_hold_events").unwrap()(i32::from(holds)) }
}

fn bytes(count: i64) -> Result<Tensor, TchError> {
    Tensor::f_empty([count], (Kind::Uint8, GPU))
}

/// Runs in a process of its own, where no segment has room for the block.
fn rounded() -> String {
    let figures = answer(&mut this("card rounded", &[]));
    assert_eq!(figures, "1049088 allocated, 20971520 reserved");
    figures
}

pub(crate) fn work(task: &str) {
    match task {
        "step" => step(),
        "first" => first(),
        "full" => crate::offload::full(),
        "two" => crate::offload::two(),
        "gpt" => trains(transformer::GPT),
        "injected" => fail(),
        "minilm" => trains(transformer::MINILM),
        "texts" => embed(),
        _ => round(),
    }
}

fn round() {
    let _held = bytes((1 << 20) + 1).unwrap();
    let stats = Device::new(GPU).stats().unwrap();
    println!("answer: {} allocated, {} reserved", stats.allocated_bytes, stats.reserved_bytes);
}

/// Runs in processes of their own, because workspaces of cuBLAS stay.
fn steps() -> String {
    let peak = |capability: &str| answer(&mut this("card step", &[("PAPER_CARD_CC", capability)]));
    let peaks = [peak("80"), peak("90")];
    assert_eq!(peaks, ["187011584", "237081088"]);
    format!("{peaks:?} bytes")
}

fn first_steps() -> String {
    let figures = |capability: &str| answer(&mut this("card first", &[("PAPER_CARD_CC", capability)]));
    format!("{}; {}", figures("80"), figures("90"))
}

/// Predicts and runs the first step of a process: neither cuBLAS nor cublasLt has run before. Their workspaces are
/// allocated by the prediction, so that the free memory that it is compared with is what the step will find.
fn first() {
    let (variables, device) = (VarStore::new(GPU), Device::new(GPU));
    let net = nn::seq()
        .add(nn::linear(variables.root(), 1024, 4096, nn::LinearConfig::default()))
        .add_fn(Tensor::relu)
        .add(nn::linear(variables.root(), 4096, 1024, nn::LinearConfig::default()));
    let learn = |rows: usize| {
        let input = Tensor::ones([i64::try_from(rows).unwrap(), 1024], FLOATS);
        net.forward(&input).square().mean(Kind::Float).backward();
    };
    let allocated_bytes = || device.stats().unwrap().allocated_bytes;
    let before = allocated_bytes();
    let prediction = toma_torch::predict(&device, learn).unwrap().confirm(2000, learn).unwrap();
    let workspaces = allocated_bytes() - before;
    let predicted = prediction.needs_bytes(2000) + workspaces;
    device.reset_peaks().unwrap();
    learn(2000);
    let took = device.stats().unwrap().peak_allocated_bytes - before;
    assert!(workspaces > 0, "the prediction allocated no workspace");
    assert!(predicted >= took - took / 200 && predicted <= took + took / 100, "{predicted} of {took}");
    println!("answer: {predicted} of {took} bytes, {workspaces} of them workspaces");
}

/// Runs a task in a process whose allocator has the whole of a card with so many bytes.
fn whole_card(task: &str, bytes: &str) -> String {
    let whole = (LIMIT.0, "per_process_memory_fraction:1.0");
    // With memory of zeros, labels that no kernel wrote are not labels that the loss ignores.
    let zeros = ("PAPER_CARD_POISON", "0x00");
    let settings = [("PAPER_CARD_BYTES", bytes), ("PAPER_VALUES", "0"), zeros, whole];
    format!("{task} in {bytes}: {}", answer(&mut this(&format!("card {task}"), &settings)))
}

fn transformers() -> String {
    [whole_card("minilm", "500M"), whole_card("gpt", "2G")].join("; ")
}

fn texts() -> String {
    whole_card("texts", "160M")
}

/// Embeds 3,000 texts by a transformer, as the example `embed` does.
fn embed() {
    let (variables, device) = (VarStore::new(GPU), Device::new(GPU));
    let net = transformer::transformer(&variables.root(), transformer::MINILM);
    let mut random = fastrand::Rng::with_seed(5);
    let texts: Vec<usize> = (0..3000).map(|_| random.usize(3..60)).collect();
    let (sizes, mut reports) = (GlobalCache::new(), Vec::new());
    let rows: Vec<f32> = execute::with::<GlobalCache>()
        .cache(&sizes)
        .device(&device)
        .predict(&DryRun)
        .by_padded_cost(|text| texts[text])
        .bucket_by(|tokens| tokens.next_power_of_two().max(8))
        .reports(&mut reports)
        .map(0..texts.len(), 8192, |batch| {
            let longest = batch.iter().map(|&text| texts[text]).max().unwrap();
            let rows = [batch.len(), longest].map(|size| i64::try_from(size).unwrap());
            let values = tch::no_grad(|| {
                net.forward_t(&Tensor::f_zeros(rows, (Kind::Int64, GPU))?, false).f_to(tch::Device::Cpu)
            })?;
            Vec::<f32>::try_from(values.narrow(1, 0, 1).flatten(0, -1))
        })
        .unwrap();
    assert_eq!(rows.len(), texts.len());
    let failed: usize = reports.iter().map(|(_, report)| report.out_of_memory).sum();
    assert_eq!(failed, 0);
    let most = device.stats().unwrap().peak_allocated_bytes;
    println!(
        "answer: {} attempts, {most} bytes",
        reports.iter().map(|(_, report)| report.attempts).sum::<usize>()
    );
}

/// Trains on 64 texts per step. The first step uses all the memory.
fn trains(sizes: transformer::Sizes) {
    let (variables, device) = (VarStore::new(GPU), Device::new(GPU));
    let net = transformer::transformer(&variables.root(), sizes);
    let texts = Tensor::zeros([64, 128], (Kind::Int64, GPU));
    let step = || {
        let form = execute::with::<NoCache>().device(&device).predict(&DryRun);
        let loss = form.backward(Loss::Mean, &variables, &texts, |texts| {
            let logits = net.forward_t(texts, true).flatten(0, -2);
            logits.cross_entropy_for_logits(&Tensor::zeros(logits.size()[0], (Kind::Int64, GPU)))
        });
        drop(loss);
        let report = report::last().unwrap();
        assert!(report.out_of_memory == 0 && report.predicted.is_some(), "{report}");
        format!("{} in {} attempts", report.start, report.attempts)
    };
    println!("answer: {} {}", step(), step());
}

/// The peak of `AdamW`'s first step, written for all weights at once, as PyTorch does it by default.
fn step() {
    let variables = VarStore::new(GPU);
    let net = nn::seq()
        .add(nn::linear(variables.root(), 1024, 4096, nn::LinearConfig::default()))
        .add_fn(Tensor::relu)
        .add(nn::linear(variables.root(), 4096, 1024, nn::LinearConfig::default()));
    let input = Tensor::randn([256, 1024], FLOATS);
    let loss = net.forward(&input).square().mean(Kind::Float);
    loss.backward();
    let weights: Vec<_> = variables.trainable_variables().iter().map(Tensor::detach).collect();
    let gradients: Vec<_> = variables.trainable_variables().iter().map(Tensor::grad).collect();
    let zeros = || weights.iter().map(Tensor::zeros_like).collect::<Vec<_>>();
    let (means, mut squares) = (zeros(), zeros());
    for (square, gradient) in squares.iter_mut().zip(&gradients) {
        let _ = square.addcmul_(gradient, gradient);
    }
    let roots: Vec<_> = squares.iter().map(Tensor::sqrt).collect();
    for ((mut weight, mean), root) in weights.into_iter().zip(&means).zip(&roots) {
        let _ = weight.addcdiv_(mean, root);
    }
    println!("answer: {}", Device::new(GPU).stats().unwrap().peak_allocated_bytes);
}

fn injected() -> String {
    let counted = answer(&mut this("card injected", &[]));
    assert_eq!(counted, "2 retries, 1 out of memory");
    "one failure is retried, and two are out of memory".to_owned()
}

/// The driver is asked for each block, because nothing is cached.
fn fail() {
    fail_from(1, 1);
    drop(bytes(50 << 20).expect("the allocator asks the driver twice"));
    Device::new(GPU).release_cached_memory();
    fail_from(1, 2);
    bytes(50 << 20).expect_err("both fail");
    let stats = Device::new(GPU).stats().unwrap();
    println!("answer: {} retries, {} out of memory", stats.alloc_retries, stats.ooms);
}

fn held() -> String {
    let pinned = || Tensor::zeros([1 << 20], (Kind::Uint8, tch::Device::Cpu)).pin_memory(GPU);
    // Copies a pinned block to the device, frees it, pins as much again, and returns true if the block is the same.
    let is_reused = || {
        let host = pinned();
        let address = host.data_ptr();
        let _copy = host.to_device_(GPU, Kind::Uint8, true, true);
        drop(host);
        pinned().data_ptr() == address
    };
    hold_events(true);
    let while_held = is_reused();
    hold_events(false);
    assert_eq!([while_held, is_reused()], [false, true]);
    String::new()
}

/// These checks compare values; poisoned memory keeps zeros from being equal to zeros.
fn without_values() -> String {
    let names = ["a retry draws", "in backward, as an error", "in backward, as a panic"];
    for name in names {
        let on = [("PAPER_CARD_POISON", "0x41")];
        assert!(this("", &on).arg(name).output().unwrap().status.success(), "{name}: with values");
        let off = [("PAPER_CARD_POISON", "0x41"), ("PAPER_VALUES", "0")];
        let output = this("", &off).arg(name).output().unwrap();
        assert!(!output.status.success(), "{name}: without values");
    }
    format!("{} checks pass with values and fail without", names.len())
}

fn unserved() -> String {
    let weight = Tensor::zeros([16, 64], (Kind::Uint8, GPU));
    let error = weight.f_internal_convert_weight_to_int4pack(2).unwrap_err().to_string();
    let sentence = error.lines().find(|line| line.contains("paper card: ")).unwrap_or(&error);
    assert!(sentence.contains("no values for aten::_convert_weight_to_int4pack ("), "{error}");
    sentence.to_owned()
}

fn refused() -> String {
    let refused = |name: &str, value: &str| sentence(&this("", &[(name, value)]).output().unwrap());
    for (name, value) in [("PAPER_CARD_CC", "70"), ("PAPER_CARD_TAKEN", "1,x"), ("PAPER_CARD_FAIL", "0")] {
        assert!(refused(name, value).starts_with(&format!("paper card: {name}={value}: ")));
    }
    refused("PAPER_CARD_BYTES", "0")
}

/// NVIDIA's own library, stored next to libtorch, where libtorch's search path would find it first.
fn another() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let torch =
        maps.lines().find_map(|line| Some(&line[line.find('/')?..line.find("torch/lib/libtorch_cpu.so")?]));
    let Some(packages) = torch else { return "libtorch is of no Python package".to_owned() };
    let runtime = format!("{packages}nvidia/cu13/lib");
    let preload = env::var("LD_PRELOAD").unwrap();
    // The card's library brings its own libraries, regardless of the loader's path.
    let path = format!("{runtime}:{}", env::var("LD_LIBRARY_PATH").unwrap_or_default());
    let all = this("", &[("LD_LIBRARY_PATH", &path)]).arg("a MiB and a byte").output().unwrap();
    assert!(all.status.success(), "{}", String::from_utf8_lossy(&all.stderr));
    let preload = format!("{runtime}/libcudart.so.13 {preload}");
    sentence(&this("", &[("LD_PRELOAD", &preload)]).output().unwrap())
}

/// Returns a command that runs this program again, for a task or for checks.
pub(crate) fn this(task: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env::current_exe().expect("this program has a path"));
    command.envs(variables.iter().copied());
    if !task.is_empty() {
        command.env(TASK, task);
    }
    command
}

/// Returns the message of a program that refused its settings.
fn sentence(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "it was not refused");
    let stderr = String::from_utf8_lossy(&output.stderr);
    stderr.lines().find(|line| line.starts_with("paper card: ")).expect("a sentence").to_owned()
}
