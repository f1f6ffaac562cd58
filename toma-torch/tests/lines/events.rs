//! Tests that a trace holds all events of a program in order, and the figures computed from them.

use std::{fs, thread};

use crate::ground;
use tch::nn::{self, Module as _, OptimizerConfig as _};
use tch::{Kind, Tensor};
use toma_torch::profile::{self, Column, Depth, Profiler};
use toma_trace::holdings::Category;
use toma_trace::lines::{Figures, Lines};
use toma_trace::{Place, ScopeKind};

use crate::{alone, figures, record, record_at};

#[toma::profile]
pub(crate) fn step(net: &nn::Sequential, images: &Tensor, labels: &Tensor) -> Tensor {
    let loss = net.forward(images).cross_entropy_for_logits(labels);
    loss.backward();
    loss
}

pub(crate) fn net(variables: &nn::VarStore) -> nn::Sequential {
    nn::seq()
        .add(nn::linear(variables.root() / "first", 64, 128, nn::LinearConfig::default()))
        .add_fn(Tensor::relu)
        .add(nn::linear(variables.root() / "last", 128, 10, nn::LinearConfig::default()))
}

pub(crate) fn batch() -> (Tensor, Tensor) {
    (Tensor::randn([32, 64], ground::floats()), Tensor::zeros([32], (Kind::Int64, ground::device())))
}

#[test]
fn every_byte_at_the_peak_of_a_training_has_a_name_a_category_and_a_line() {
    let _alone = alone();
    let variables = nn::VarStore::new(ground::device());
    let (net, (images, labels)) = (net(&variables), batch());
    let mut optimizer = nn::Adam::default().build(&variables, 1e-3).unwrap();
    let profiler = Profiler::new().depth(Depth::Events).variables(&variables).label("images", &images);
    let profiling = profiler.start().unwrap();
    ground::reset_peak_allocated_bytes();
    for _ in 0..2 {
        drop(step(&net, &images, &labels));
        profile::optimizer("Adam", || optimizer.step());
        optimizer.zero_grad();
    }
    let (recording, allocated) = (profiling.finish(), ground::allocated_bytes());
    let trace = recording.trace().unwrap();
    let live = trace.live(&ground::place());
    assert_eq!((live.after(), live.peak().bytes), (allocated, ground::peak_allocated_bytes()));
    let peak = recording.peak();
    assert_eq!(peak.bytes, ground::peak_allocated_bytes());
    let held = peak.holdings.unwrap();
    assert_eq!(held.bytes(), peak.bytes);
    let name = |name: &str| {
        held.held().iter().find(|held| held.name == name).map(|held| (held.category, held.bytes))
    };
    assert_eq!(name("first.weight"), Some((Category::Parameter, 64 * 128 * 4)));
    assert_eq!(name("Adam.first.weight.exp_avg"), Some((Category::OptimizerState, 64 * 128 * 4)));
    assert_eq!(name("Adam.last.bias.exp_avg_sq"), Some((Category::OptimizerState, 10 * 4)));
    assert_eq!(name("images"), Some((Category::Input, 32 * 64 * 4)));
    let is_born_here = |name: &str| name.contains("events.rs:") || name.ends_with(" @ optimizer Adam");
    let is_named = |name: &str| name.contains("first.") || name.contains("last.") || name == "images";
    let is_older = |name: &str| name == "older than the recording";
    let is_known = |name: &str| is_born_here(name) || is_named(name) || is_older(name);
    let nameless: Vec<_> = held.held().iter().filter(|held| !is_known(&held.name)).collect();
    assert!(nameless.is_empty(), "{nameless:#?}");
}

#[test]
fn gradients_keep_their_names_after_they_are_gone() {
    let _alone = alone();
    let variables = nn::VarStore::new(ground::device());
    let (net, (images, labels)) = (net(&variables), batch());
    let mut optimizer = nn::Sgd::default().build(&variables, 1e-3).unwrap();
    let profiling = Profiler::new().depth(Depth::Events).variables(&variables).start().unwrap();
    drop(step(&net, &images, &labels));
    optimizer.zero_grad();
    let big = Tensor::ones([1 << 10], ground::floats());
    drop((optimizer, net, variables, big));
    let recording = profiling.finish();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("step.txt");
    recording.write_text(&file).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("gradient   first.weight.grad"), "{text}");
    let [page, pickle, json] = ["step.html", "step.pickle", "step.json"].map(|name| folder.path().join(name));
    recording.write_html(&page).unwrap();
    recording.write_memory_viz(&pickle).unwrap();
    recording.write_perfetto(&json).unwrap();
    for file in [page, pickle, json] {
        assert!(fs::metadata(&file).unwrap().len() > 1000, "{}", file.display());
    }
}

#[test]
fn a_trace_has_the_same_rows_as_the_running_program() {
    let _alone = alone();
    let variables = nn::VarStore::new(ground::device());
    let (net, (images, labels)) = (net(&variables), batch());
    let recording = record_at(Depth::Events, || {
        for _ in 0..3 {
            drop(step(&net, &images, &labels));
        }
    });
    let columns = [
        Column::Peak,
        Column::Rise,
        Column::Allocated,
        Column::Freed,
        Column::Kept,
        Column::Backward,
        Column::Hits,
    ];
    let running = recording.lines().columns(columns);
    let traced = Lines::of(recording.trace().unwrap()).columns(columns);
    for text in
        ["let loss = net.forward(images).cross_entropy_for_logits(labels);", "loss.backward();", "loss"]
    {
        let number = running.number("step", text).unwrap();
        let figures = |lines: &Lines| lines.figures("step", number, &ground::place()).unwrap();
        // Memory that the autograd engine allocates between two nodes belongs to no node of a trace.
        let Figures { backward, .. } = figures(&running);
        let mut of_trace = figures(&traced);
        assert!(of_trace.backward <= backward);
        of_trace.backward = backward;
        assert_eq!(figures(&running), of_trace, "{text}\n{running}\n{traced}");
    }
}

#[test]
fn a_backward_belongs_to_the_lines_of_its_operators() {
    let _alone = alone();
    let (weight, input) = (
        Tensor::ones([64, 64], ground::floats()).set_requires_grad(true),
        Tensor::ones([64, 64], ground::floats()),
    );
    for depth in [Depth::Lines, Depth::Events] {
        let recording = record_at(depth, || products(&weight, &input));
        let backward = |text| figures(&recording, "products", text).backward;
        // The first product has a gradient for its weight only, the second one for both factors.
        let table = recording.lines().columns(Column::ALL);
        assert_eq!(backward("let first = input.mm(weight);"), 64 * 64 * 4, "{table}");
        assert!(backward("let second = first.mm(weight);") >= 2 * 64 * 64 * 4);
        assert_eq!(backward("loss.backward();"), 0);
    }
}

#[toma::profile]
fn products(weight: &Tensor, input: &Tensor) {
    let first = input.mm(weight);
    let second = first.mm(weight);
    let loss = second.sum(Kind::Float);
    loss.backward();
}

#[test]
fn operators_stand_beneath_their_lines_and_bytes_are_replayed_as_cudas() {
    let _alone = alone();
    let variables = nn::VarStore::new(ground::device());
    let (net, (images, labels)) = (net(&variables), batch());
    let recording = record_at(Depth::Events, || drop(step(&net, &images, &labels)));
    let lines = recording.lines().function("step").operators(true).to_string();
    for operator in ["addmm", "relu", "_log_softmax", "nll_loss_forward"] {
        assert!(lines.contains(operator), "{operator}: {lines}");
    }
    let as_cuda = recording.lines().as_cuda().unwrap();
    let number = as_cuda.number("step", "loss.backward();").unwrap();
    let figures = as_cuda.figures("step", number, &Place::device("cuda", 0)).unwrap();
    assert!(figures.reserved >= 2 << 20 && figures.peak % 512 == 0, "{figures:?}");
    let without = record(|| drop(step(&net, &images, &labels)));
    assert_eq!(
        without.lines().as_cuda().unwrap_err().to_string(),
        "as_cuda: no events were kept, which `Depth::Events` does"
    );
    let error = without.write_html("/nowhere/step.html").unwrap_err().to_string();
    assert_eq!(error, "write_html: no events were kept, which `Depth::Events` does");
    let error = recording.write_html("/nowhere/step.html").unwrap_err().to_string();
    assert!(error.starts_with("/nowhere/step.html: "), "{error}");
}

#[toma::profile]
fn sums(times: i64) -> Tensor {
    let mut sum = Tensor::zeros([16], ground::floats());
    for _ in 0..times {
        sum += 1;
    }
    sum
}

#[test]
fn frames_of_all_threads_are_in_one_trace() {
    let _alone = alone();
    let recording = record_at(Depth::Events, || {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| sums(20));
            }
        });
    });
    let trace = recording.trace().unwrap();
    let functions = trace.scopes().filter(|(_, scope)| scope.label.kind == ScopeKind::Function);
    let threads: std::collections::BTreeSet<_> = functions.map(|(_, scope)| scope.interval.thread).collect();
    assert_eq!(threads.len(), 3);
    let adds = trace.operators().filter(|(_, operator)| operator.name.starts_with("aten::add")).count();
    assert_eq!(adds, 60);
}

#[test]
fn a_dry_run_is_in_no_event() {
    let _alone = alone();
    let recording = record_at(Depth::Events, || {
        toma_torch::dry_run(|| sums(3)).unwrap();
    });
    let trace = recording.trace().unwrap();
    assert_eq!((trace.operators().len(), trace.scopes().len()), (0, 0));
    assert_eq!(trace.live(&ground::place()).peak().bytes, trace.live(&ground::place()).before());
}

#[toma::profile]
fn branches(input: &Tensor, is_squared: bool) -> Tensor {
    let sum = if is_squared {
        let squares = input.square();
        squares.sum(Kind::Float)
    } else {
        input.sum(Kind::Float)
    };
    inner(&sum).square()
}

#[toma::profile]
fn inner(sum: &Tensor) -> Tensor {
    sum.expand([64, 64], false).contiguous()
}

#[test]
fn a_trace_that_is_recorded_or_dry_prints_the_table_of_the_running_program() {
    let _alone = alone();
    let input = Tensor::ones([32, 32], ground::floats());
    let work = || drop((branches(&input, true), branches(&input, false)));
    let columns = [Column::Rise, Column::Allocated, Column::Freed, Column::Kept, Column::Hits];
    let running = record(work).lines().columns(columns).to_string();
    let tables =
        [toma_torch::record(work), toma_torch::dry_run(work).unwrap()].map(|trace| Lines::of(&trace));
    for lines in tables {
        let table = lines.columns(columns).to_string();
        for text in [
            "let squares = input.square();",
            "squares.sum(Kind::Float)",
            "sum.expand([64, 64]",
            "inner(&sum).square()",
        ] {
            let line = |table: &str| {
                let line = table.lines().find(|line| line.contains(text)).expect("the line ran");
                line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(line(&running), line(&table), "{running}\n{table}");
        }
    }
}
