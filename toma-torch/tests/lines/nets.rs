//! Steps of four kinds of nets: the recorded bytes are those that the allocator counts.

use std::cell::RefCell;

use crate::ground::{self, FailingAllocation};
use tch::nn::{self, Module as _, ModuleT as _, Optimizer, OptimizerConfig as _, Path, RNN as _};
use tch::{Kind, Reduction, Tensor};
use toma::NoCache;
use toma::report;
use toma_torch::profile::{self, Depth, Profiler, Recording};
use toma_trace::holdings::{Catalog, Category, Holdings, Names};
use toma_trace::{ScopeKind, Tick, Trace};

use crate::alone;

const FILE: &str = "toma-torch/tests/lines/nets.rs";

struct Net {
    variables: nn::VarStore,
    input: Tensor,
    target: Tensor,
    forward: Box<dyn Fn(&Tensor) -> Tensor>,
}

type Named = (&'static str, fn() -> Net);

const NETS: [Named; 4] =
    [("perceptron", perceptron), ("convolution", convolution), ("lstm", lstm), ("transformer", transformer)];

/// Makes a net with the same weights each time.
fn net<F: Fn(&Tensor) -> Tensor + 'static>(
    (input, target): (&[i64], &[i64]),
    forward: impl FnOnce(&Path<'_>) -> F,
) -> Net {
    tch::manual_seed(7);
    // A single thread keeps the order of sums fixed, and no threads wait for each other on a busy machine.
    tch::set_num_threads(1);
    let variables = nn::VarStore::new(ground::device());
    let forward = Box::new(forward(&variables.root()));
    Net {
        input: Tensor::randn(input, ground::floats()),
        target: Tensor::randn(target, ground::floats()),
        variables,
        forward,
    }
}

fn linear(path: &Path<'_>, name: &str, from: i64, to: i64) -> nn::Linear {
    nn::linear(path / name, from, to, nn::LinearConfig::default())
}

fn perceptron() -> Net {
    #[toma::profile]
    fn forward(layers: &[nn::Linear; 2], input: &Tensor) -> Tensor {
        note();
        let hidden = layers[0].forward(input);
        note();
        let hidden = hidden.relu();
        note();
        layers[1].forward(&hidden)
    }
    net((&[6, 16], &[6, 4]), |path| {
        let layers = [linear(path, "first", 16, 32), linear(path, "last", 32, 4)];
        move |input| forward(&layers, input)
    })
}

struct Convolution {
    convolve: nn::Conv2D,
    norm: nn::BatchNorm,
    linear: nn::Linear,
}

fn convolution() -> Net {
    #[toma::profile]
    fn forward(layers: &Convolution, input: &Tensor) -> Tensor {
        let convolved = layers.convolve.forward(input);
        note();
        let normal = layers.norm.forward_t(&convolved, true);
        note();
        let pooled = normal.relu().max_pool2d_default(2).flatten(1, -1);
        note();
        layers.linear.forward(&pooled)
    }
    net((&[4, 3, 8, 8], &[4, 4]), |path| {
        let layers = Convolution {
            convolve: nn::conv2d(path / "convolve", 3, 4, 3, nn::ConvConfig::default()),
            norm: nn::batch_norm2d(path / "norm", 4, nn::BatchNormConfig::default()),
            linear: linear(path, "linear", 36, 4),
        };
        move |input| forward(&layers, input)
    })
}

fn lstm() -> Net {
    #[toma::profile]
    fn forward(lstm: &nn::LSTM, input: &Tensor) -> Tensor {
        let (output, state) = lstm.seq(input);
        note();
        drop(state);
        note();
        output
    }
    net((&[3, 4, 6], &[3, 4, 8]), |path| {
        let lstm = nn::lstm(path, 6, 8, nn::RNNConfig::default());
        move |input| forward(&lstm, input)
    })
}

/// Two-head attention, then layers of four times the width. Both are normalized before, and added to their input.
struct Block {
    norms: [nn::LayerNorm; 2],
    attend: nn::Linear,
    project: nn::Linear,
    widen: nn::Linear,
    narrow: nn::Linear,
}

#[toma::profile]
fn attention(block: &Block, input: &Tensor) -> Tensor {
    let [rows, tokens, width] = input.size()[..] else { panic!("three axes") };
    let split = block.attend.forward(input).view([rows, tokens, 3, 2, width / 2]).permute([2, 0, 3, 1, 4]);
    note();
    let [queries, keys, values] = [0, 1, 2].map(|part| split.select(0, part));
    let scores = (queries.matmul(&keys.transpose(-2, -1)) / 2.0).softmax(-1, Kind::Float);
    note();
    block.project.forward(&scores.matmul(&values).transpose(1, 2).flatten(2, -1))
}

fn transformer() -> Net {
    #[toma::profile]
    fn forward(block: &Block, input: &Tensor) -> Tensor {
        let middle = input + attention(block, &block.norms[0].forward(input));
        note();
        let wide = block.widen.forward(&block.norms[1].forward(&middle)).gelu("none");
        note();
        middle + block.narrow.forward(&wide)
    }
    net((&[3, 5, 8], &[3, 5, 8]), |path| {
        let norm = |name| nn::layer_norm(path / name, vec![8], nn::LayerNormConfig::default());
        let block = Block {
            norms: [norm("norm1"), norm("norm2")],
            attend: linear(path, "attend", 8, 24),
            project: linear(path, "project", 8, 8),
            widen: linear(path, "widen", 8, 32),
            narrow: linear(path, "narrow", 32, 8),
        };
        move |input| forward(&block, input)
    })
}

#[toma::profile]
fn step(net: &Net, optimizer: &mut Optimizer) -> f64 {
    note();
    let output = (net.forward)(&net.input);
    note();
    let loss = output.mse_loss(&net.target, Reduction::Mean);
    note();
    loss.backward();
    note();
    let value = loss.double_value(&[]);
    drop((output, loss));
    note();
    profile::optimizer("Adam", || optimizer.step());
    note();
    optimizer.zero_grad();
    note();
    value
}

/// Allocated bytes at a `note();`, and their peak since the previous one, as the allocator has counted them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Noted {
    bytes: u64,
    peak: u64,
}

thread_local! {
    static NOTES: RefCell<Vec<Noted>> = const { RefCell::new(Vec::new()) };
}

fn note() {
    let noted = Noted { bytes: ground::allocated_bytes(), peak: ground::peak_allocated_bytes() };
    NOTES.with_borrow_mut(|notes| notes.push(noted));
    ground::reset_peak_allocated_bytes();
}

fn adam(net: &Net) -> Optimizer {
    nn::Adam::default().build(&net.variables, 1e-2).unwrap()
}

/// Ticks of the `note();` lines in a trace.
fn note_ticks(trace: &Trace) -> Vec<Tick> {
    let lines = trace.scopes().filter(|(_, scope)| scope.label.kind == ScopeKind::Line);
    let notes = lines.filter(|(_, scope)| scope.label.name.trim() == "note();");
    let mut ticks: Vec<_> = notes.map(|(_, scope)| scope.interval.begin).collect();
    ticks.sort_unstable();
    ticks
}

/// Computes the same notes from the events of a trace.
fn recorded_notes(trace: &Trace) -> Vec<Noted> {
    let live = trace.live(&ground::place());
    let mut from = Tick::START;
    let of = |to: Tick| {
        let between = live.steps().iter().filter(|(tick, _)| from <= *tick && *tick <= to);
        let peak = between.map(|(_, bytes)| *bytes).max().unwrap_or(0).max(live.at(from));
        from = to;
        Noted { bytes: live.at(to), peak }
    };
    note_ticks(trace).into_iter().map(of).collect()
}

#[test]
fn living_bytes_are_the_allocators_at_every_note_and_in_between() {
    let _alone = alone();
    for (name, net) in NETS {
        let net = net();
        let mut optimizer = adam(&net);
        let profiler = Profiler::new().depth(Depth::Events).variables(&net.variables);
        let profiling = profiler.label("input", &net.input).label("target", &net.target).start().unwrap();
        NOTES.take();
        ground::reset_peak_allocated_bytes();
        for _ in 0..2 {
            step(&net, &mut optimizer);
        }
        let recording = profiling.finish();
        let (trace, notes) = (recording.trace().unwrap(), NOTES.take());
        assert_eq!(recorded_notes(trace), notes, "{name}");
        assert_eq!(trace.live(&ground::place()).after(), ground::allocated_bytes(), "{name}");
        assert_eq!(recording.peak().bytes, notes.iter().map(|noted| noted.peak).max().unwrap(), "{name}");
        let catalog = Catalog::of(trace, &Names::new());
        for (tick, noted) in note_ticks(trace).into_iter().zip(notes) {
            let held = Holdings::at(trace, &catalog, &ground::place(), tick);
            assert_eq!(held.by_category().values().sum::<u64>(), noted.bytes, "{name}");
        }
        every_byte_of_the_peak_has_a_name(name, &net, &recording);
    }
}

fn every_byte_of_the_peak_has_a_name(name: &str, net: &Net, recording: &Recording) {
    let held = recording.peak().holdings.unwrap();
    let is_variable = |name: &str| {
        let name = name.trim_start_matches("Adam.").trim_end_matches(".grad");
        let name = name.trim_end_matches(".exp_avg_sq").trim_end_matches(".exp_avg");
        net.variables.variables().contains_key(name) || ["input", "target"].contains(&name)
    };
    let nameless = held
        .held()
        .iter()
        .filter(|held| !is_variable(&held.name) && !held.name.contains(&format!(" @ {FILE}:")));
    let nameless: Vec<_> = nameless.collect();
    assert!(nameless.is_empty(), "{name}: {nameless:#?}");
    let categories = held.by_category();
    for category in [Category::Parameter, Category::Gradient, Category::OptimizerState, Category::Input] {
        assert!(categories.contains_key(&category), "{name} has no {category}: {held}");
    }
}

/// The state that each step begins from.
struct Start<'a> {
    net: &'a Net,
    values: Vec<(Tensor, Tensor)>,
}

impl<'a> Start<'a> {
    fn of(net: &'a Net) -> Self {
        let variables = net.variables.variables().into_values();
        Self { net, values: variables.map(|value| (value.detach().copy(), value)).collect() }
    }

    fn restore(&self) -> Optimizer {
        tch::no_grad(|| {
            for (before, value) in &self.values {
                value.shallow_clone().copy_(before);
            }
        });
        let mut optimizer = adam(self.net);
        optimizer.zero_grad();
        optimizer
    }

    /// Returns the loss and the variables after a step in which the given allocation of the first attempt fails.
    fn step(&self, fails_at: Option<u32>) -> (f64, Vec<Tensor>) {
        let mut fails_at = fails_at;
        let loss = toma::execute::with::<NoCache>().batch(2, |_| {
            let mut optimizer = self.restore();
            let _injected = fails_at.take().map(FailingAllocation::after);
            step(self.net, &mut optimizer)
        });
        (loss, self.values.iter().map(|(_, value)| value.detach().copy()).collect())
    }
}

#[test]
fn out_of_memory_at_every_allocation_of_a_step_is_explained() {
    let _alone = alone();
    for (name, net) in NETS {
        let net = net();
        let start = Start::of(&net);
        let right = start.step(None);
        let mut lines = [0; 2];
        for fails_at in 0.. {
            let depth = if fails_at % 2 == 0 { Depth::Lines } else { Depth::Events };
            let profiler = Profiler::new().depth(depth).events(1 << 12).variables(&net.variables);
            let profiling = profiler.start().unwrap();
            let values = start.step(Some(fails_at));
            drop(profiling);
            assert_eq!(values, right, "{name} at allocation {fails_at}");
            let report = report::last().unwrap();
            if report.out_of_memory == 0 {
                break;
            }
            let filled = report.filled.unwrap_or_else(|| panic!("{name} at allocation {fails_at}"));
            let first_line = filled.lines().next().unwrap();
            let (operator, rest) = first_line.split_once(" @ ").unwrap_or_else(|| panic!("{name}: {filled}"));
            assert!(!operator.is_empty() && rest.starts_with(FILE), "{name}: {filled}");
            assert!(filled.contains(" parameter") && filled.contains(" holds "), "{name}: {filled}");
            let is_in_optimizer = rest.starts_with(&format!("{FILE}:{} ", optimizer_line()));
            lines[usize::from(is_in_optimizer)] += 1;
        }
        assert!(lines[0] > 10 && lines[1] > 10, "{name}: {lines:?}");
    }
}

fn optimizer_line() -> usize {
    let text = "profile::optimizer(\"Adam\", || optimizer.step());";
    1 + include_str!("nets.rs").lines().position(|line| line.trim() == text).unwrap()
}
