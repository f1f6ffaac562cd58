//! Cost of a recording: 100 marked steps of a net of 40 layers of 64, with a recording and without.
//!
//! Times are of the processor, one thread, because a busy machine only adds to them. Ratios are medians over runs in
//! the order a, b, b, a. With `--test` every case runs once. `steps`, `filled` or `page` as an argument runs that part
//! alone.

use std::env;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use tch::nn::{self, Module as _, OptimizerConfig as _};
use tch::{Device, Kind, Tensor};
use toma_core::NoCache;
use toma_core::execute;
use toma_core::report;
use toma_torch::cpu::{self, Budget};
use toma_torch::profile::{Depth, Profiler};
use toma_trace::holdings::{Catalog, Names};
use toma_trace::lines::Lines;
use toma_trace::{Event, Location, Mark, Memory, Place, Reader as _, Size, ThreadId, TraceBuilder, write};

const FLOATS: (Kind, Device) = (Kind::Float, Device::Cpu);
const ROWS: i64 = 32;

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let named: Vec<_> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let runs = |part: &str| named.is_empty() || named.iter().any(|name| *name == part);
    tch::set_num_threads(1);
    cpu::count();
    if runs("steps") {
        steps(is_test);
    }
    if runs("filled") {
        filled(if is_test { 10 } else { 1000 });
    }
    if runs("page") {
        page(if is_test { 1 << 10 } else { 10_000_000 });
    }
}

fn steps(is_test: bool) {
    let (steps, runs) = if is_test { (1, 1) } else { (100, 15) };
    for (width, depth, bar) in
        [(64, Depth::Lines, "1.03x"), (64, Depth::Events, "1.40x"), (256, Depth::Events, "1.10x")]
    {
        let mut net = Net::new(width);
        net.steps(steps);
        let name = format!("{steps} steps of 40 layers of {width}, {depth:?}");
        println!("{name:<46} {:>9.3}x  (bar: {bar})", ratio(&mut net, depth, steps, runs));
    }
}

struct Net {
    layers: Vec<nn::Linear>,
    optimizer: nn::Optimizer,
    input: Tensor,
}

impl Net {
    fn new(width: i64) -> Self {
        let variables = nn::VarStore::new(Device::Cpu);
        let layer = |_| nn::linear(variables.root(), width, width, nn::LinearConfig::default());
        let layers = (0..40).map(layer).collect();
        let optimizer = nn::Sgd::default().build(&variables, 1e-4).expect("an optimizer");
        Self { layers, optimizer, input: Tensor::randn([ROWS, width], FLOATS) }
    }

    #[toma::profile]
    fn loss(&self) -> Tensor {
        let mut values = self.input.shallow_clone();
        for layer in &self.layers {
            values = layer.forward(&values);
            values = values.relu();
        }
        values.sum(Kind::Float)
    }

    #[toma::profile]
    fn step(&mut self) {
        let loss = self.loss();
        self.optimizer.zero_grad();
        loss.backward();
        self.optimizer.step();
    }

    fn steps(&mut self, steps: u32) {
        (0..steps).for_each(|_| self.step());
    }
}

fn ratio(net: &mut Net, depth: Depth, steps: u32, runs: u32) -> f64 {
    let recorded = |net: &mut Net| {
        let profiling = Profiler::new().depth(depth).start().expect("the only one");
        let took = time(|| net.steps(steps));
        drop(profiling);
        took
    };
    let mut quadruple = |_| {
        let first = recorded(net);
        let bare = time(|| net.steps(steps)) + time(|| net.steps(steps));
        (first + recorded(net)).as_secs_f64() / bare.as_secs_f64()
    };
    let mut ratios: Vec<_> = (0..runs).map(&mut quadruple).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

/// Prints the extra time of a failed attempt that reports the holders of the memory, with this many live blocks.
fn filled(blocks: usize) {
    let held: Vec<_> = (0..blocks).map(|_| Tensor::zeros([16], FLOATS)).collect();
    let failing = || {
        let _budget = Budget::beyond_allocated(1 << 11);
        let begun = Instant::now();
        let form = execute::with::<NoCache>();
        form.batch(2, |rows| {
            if rows > 1 { drop(Tensor::zeros([1 << 10], FLOATS)) } else { drop(Tensor::zeros([1], FLOATS)) }
        });
        begun.elapsed()
    };
    let least = || (0..1001).map(|_| failing()).min().unwrap_or_default();
    let bare = least();
    let profiling = Profiler::new().start().expect("the only one");
    let reported = least();
    let filled = report::last().and_then(|report| report.filled);
    assert!(filled.is_some(), "the failure is reported");
    drop((profiling, held));
    let micros = reported.saturating_sub(bare).as_secs_f64() * 1e6;
    println!("{:<46} {micros:>9.1} us  (bar: 100 us)", format!("holders of a full memory, {blocks} blocks"));
}

/// Writes the page of a recording of this many events: operators of a line, each with a block that the next one frees.
fn page(events: u64) {
    let mut builder = TraceBuilder::new();
    let mut read = |event: Event<'_>| builder.read(ThreadId(0), &event).expect("few bytes");
    read(Event::Mark(Mark::Enters(Location::new("step", "src/net.rs", 1, "fn step() {"))));
    for step in 0..events / 4 {
        if step % 100 == 0 {
            read(Event::Mark(Mark::Line(Location::new("step", "src/net.rs", 2, "x.relu()"))));
        }
        let (address, bytes) = (64 * (step % 1000), 4 * (step % 977));
        read(Event::OperatorBegins { name: "aten::relu", node: None });
        read(Event::Born(Memory { address, place: Place::HOST, bytes }));
        read(Event::Ends { duration: None });
    }
    let (trace, mut page) = (builder.finish(), Vec::new());
    let begun = Instant::now();
    let catalog = Catalog::of(&trace, &Names::new());
    write::html(&trace, &catalog, &Lines::of(&trace), "step", &mut page).expect("it is written");
    let took = begun.elapsed().as_secs_f64();
    let size = Size::of(page.len() as u64);
    println!(
        "{:<46} {took:>9.2} s  (bar: 10 s), {size} (bar: 3 MB)",
        format!("page of {} events", trace.end().count())
    );
}

fn time(work: impl FnOnce()) -> Duration {
    let begun = ProcessTime::now();
    work();
    begun.elapsed()
}
