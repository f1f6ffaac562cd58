//! Steps of a GPT of 124 million weights on the first CUDA device: plain, by plans of checkpoints, offloaded, and the
//! largest batch that fits, found by retries and by a prediction.
//!
//! Times are of the wall clock, medians of five steps after nine that are not counted, with the device idle before and
//! after. Bytes are those of libtorch's counters beyond weights and workspaces. `steps PART` runs one of `planned`,
//! `offloaded` and `largest`. With `--test` each step of a small net runs once.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use tch::nn::{self, ModuleT, OptimizerConfig as _, VarStore};
use tch::{Device, Kind, Tensor};
use toma_core::memory::MemorySource as _;
use toma_core::{NoCache, execute, report};
use toma_torch::checkpoint::{self, Solver};
use toma_torch::offload::{Eviction, Flow, Lru, Manager};
use toma_torch::{DryRun, QuietBacktraces, Stats};

use transformer::{GPT, MINILM, transformer};

#[path = "../../examples/predict/transformer.rs"]
#[allow(dead_code, reason = "of the sizes, one is used in a run")]
mod transformer;

const GPU: Device = Device::Cuda(0);

/// Steps that are not counted: `Flow` notices the step in the first ones, and then changes its plan up to four times.
const WARM_UP: usize = 9;

fn main() {
    if !tch::Cuda::is_available() {
        println!("skipped: no CUDA device");
        return;
    }
    let is_test = env::args().any(|argument| argument == "--test");
    tch::set_num_threads(1);
    let bench = if is_test { Bench::new(MINILM, 2, 1, 8) } else { Bench::new(GPT, 8, 5, 4096) };
    let plain = bench.measured("plain", |loss| loss()).expect("a plain step fits");
    let part = env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let is_known = |part: &String| ["planned", "offloaded", "largest"].contains(&&**part);
    assert!(part.iter().all(is_known), "{part:?} is none of planned, offloaded, largest");
    let runs = |name: &str| part.as_deref().is_none_or(|part| part == name);
    if runs("planned") {
        bench.planned(plain);
    }
    if runs("offloaded") {
        bench.offloaded(plain);
    }
    if runs("largest") {
        bench.largest();
    }
}

/// Time and bytes of a step.
#[derive(Clone, Copy)]
struct Figures {
    time: Duration,
    bytes: u64,
}

struct Bench {
    variables: VarStore,
    net: Box<dyn ModuleT>,
    rows: i64,
    tokens: i64,
    rounds: usize,
    /// A batch that does not fit.
    most: usize,
    /// Bytes of the weights and the workspaces of libraries.
    base_bytes: u64,
}

impl Bench {
    fn new(sizes: transformer::Sizes, rows: i64, rounds: usize, most: usize) -> Self {
        let variables = VarStore::new(GPU);
        let net = Box::new(transformer(&variables.root(), sizes));
        let tokens = if rounds == 1 { 16 } else { 1024 };
        let mut bench = Self { variables, net, rows, tokens, rounds, most, base_bytes: 0 };
        bench.loss(1).backward();
        bench.optimizer().zero_grad();
        bench.base_bytes = stats().allocated_bytes;
        bench
    }

    fn optimizer(&self) -> nn::Optimizer {
        nn::sgd(0.0, 0.0, 0.0, false).build(&self.variables, 1e-4).expect("an optimizer")
    }

    fn loss(&self, rows: i64) -> Tensor {
        let tokens = Tensor::zeros([rows, self.tokens], (Kind::Int64, GPU));
        self.net.forward_t(&tokens, true).flatten(0, -2).log_softmax(-1, Kind::Float).mean(Kind::Float)
    }

    /// Measures steps, in which `around` computes the loss. `None` if they run out of memory.
    fn measured(&self, name: &str, around: impl Fn(&dyn Fn() -> Tensor) -> Tensor) -> Option<Figures> {
        let mut sgd = self.optimizer();
        let mut step = || {
            let began = Instant::now();
            sgd.backward_step(&around(&|| self.loss(self.rows)));
            tch::Cuda::synchronize(0);
            began.elapsed()
        };
        toma_torch::Device::new(GPU).release_cached_memory();
        let times = catch_unwind(AssertUnwindSafe(|| {
            (0..if self.rounds == 1 { 2 } else { WARM_UP }).for_each(|_| _ = step());
            toma_torch::Device::new(GPU).reset_peaks().expect("counters");
            (0..self.rounds).map(|_| step()).collect::<Vec<_>>()
        }));
        self.optimizer().zero_grad();
        let Ok(mut times) = times else {
            println!("{name:<34} out of memory");
            return None;
        };
        times.sort_unstable();
        let bytes = stats().peak_allocated_bytes.saturating_sub(self.base_bytes);
        let figures = Figures { time: times[times.len() / 2], bytes };
        println!("{name:<34} {:>9.2?} {:>8} MiB", figures.time, figures.bytes >> 20);
        Some(figures)
    }

    fn planned(&self, plain: Figures) {
        let form = checkpoint::with().name("gpt");
        let _ = self.measured("a region with all memory", |loss| form.region(loss));
        let Some(costs) = form.known() else { return println!("no costs of the region") };
        for percent in [80, 60, 0] {
            let budget = (plain.bytes / 100 * percent).max(costs.least_bytes());
            let chosen = costs.plan(budget, Solver::Auto).expect("a plan");
            let planned = chosen.seconds() / chosen.keep_all_seconds();
            let name = format!("a plan in {percent} %, {planned:.2}x planned");
            if let Some(figures) = self.measured(&name, |loss| form.plan(&chosen).region(loss)) {
                let planned_mib = chosen.peak_bytes() >> 20;
                println!("  {:.3}x the time, {planned_mib} MiB planned", ratio(figures, plain));
            }
        }
    }

    fn offloaded(&self, plain: Figures) {
        let device = toma_torch::Device::new(GPU);
        for percent in [80, 60] {
            let evictions: [(&str, Box<dyn Eviction>); 2] =
                [("Lru", Box::new(Lru)), ("Flow", Box::<Flow>::default())];
            for (name, eviction) in evictions {
                let budget = self.base_bytes + plain.bytes / 100 * percent;
                let manager = Manager::new(&device).budget(budget).eviction(eviction);
                let entered = manager.enter().expect("one manager");
                let figures = self.measured(&format!("{name} in {percent} %"), |loss| loss());
                let report = manager.report();
                manager.fetch_all().expect("all fits");
                drop(entered);
                if let Some(figures) = figures {
                    println!(
                        "  {:.3}x the time; {} fetched, {} evicted",
                        ratio(figures, plain),
                        report.fetches,
                        report.offloads
                    );
                }
            }
        }
    }

    fn largest(&self) {
        let (device, quiet) = (toma_torch::Device::new(GPU), QuietBacktraces::new());
        for is_predicted in [false, true] {
            device.release_cached_memory();
            let form = execute::with::<NoCache>().device(&device);
            let form = if is_predicted { form.predict(&DryRun) } else { form };
            let began = Instant::now();
            let size = form.batch(self.most, |rows| {
                self.loss(i64::try_from(rows).expect("small")).backward();
                tch::Cuda::synchronize(0);
                rows
            });
            let (took, report) = (began.elapsed(), report::last().expect("a call"));
            let how = if is_predicted { "predicted" } else { "by retries" };
            println!(
                "largest batch {how}: {size} rows in {took:.2?}, {} out of memory",
                report.out_of_memory
            );
        }
        drop(quiet);
        let (mut fits, mut fails) = (1_usize, self.most);
        while fails - fits > 1 {
            let middle = fits.midpoint(fails);
            device.release_cached_memory();
            let done = catch_unwind(AssertUnwindSafe(|| {
                self.loss(i64::try_from(middle).expect("small")).backward();
            }));
            if done.is_ok() { fits = middle } else { fails = middle }
        }
        println!("largest batch by bisection: {fits} rows");
    }
}

fn stats() -> Stats {
    toma_torch::Device::new(GPU).stats().expect("counters")
}

fn ratio(figures: Figures, plain: Figures) -> f64 {
    figures.time.as_secs_f64() / plain.time.as_secs_f64()
}
