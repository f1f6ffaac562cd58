//! Costs of tensors: the loop against the hand-written one, a failed attempt against the failure alone, guards,
//! rollbacks, counting, reading.
//!
//! Ratios and differences are medians over runs in the order a, b, b, a, so that a busy machine disturbs both sides
//! alike. With `--test` every case runs once.

use std::env;
use std::hint::black_box;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use tch::nn::{self, Module as _};
use tch::{Device, Kind, TchError, Tensor};
use toma_core::NoCache;
use toma_core::execute;
use toma_core::memory::MemorySource as _;
use toma_torch::cpu::{self, Budget};
use toma_torch::{ModeGuard, QuietBacktraces, RngState, Rollback, accumulate_gradients};

const FLOATS: (Kind, Device) = (Kind::Float, Device::Cpu);

fn main() {
    let bench = Bench { rounds: if env::args().any(|argument| argument == "--test") { 1 } else { 201 } };
    tch::set_num_threads(1);
    // Panics below are caught, and printing them would add to the times.
    panic::set_hook(Box::new(|_| ()));
    // First, while the allocator is libtorch's own.
    bench.own_errors();
    bench.counting();
    for step in [4, 64, 256] {
        bench.chunks(step);
    }
    bench.failures();
    bench.failures_in_backward();
    bench.guards();
    bench.gradients();
    bench.reads();
}

/// The number of samples of each figure. Each sample is short, so that most of them end before a busy machine takes the
/// processor away.
struct Bench {
    rounds: usize,
}

/// The cases.
impl Bench {
    /// libtorch's own out-of-memory error, whose backtrace takes longest of all.
    fn own_errors(&self) {
        let attempt = |rows: i64| Tensor::f_empty([if rows > 1 { 1 << 50 } else { 1 }], FLOATS).map(drop);
        let (few, quiet) = (Self { rounds: self.rounds.min(21) }, QuietBacktraces::new());
        let bare = || _ = black_box((attempt(2), attempt(1)));
        let ours = || execute::with::<NoCache>().batch(2, |size| attempt(number(size)));
        self.overhead("retry after libtorch's own error", (5, "100 us"), || drop(ours()), bare);
        drop(quiet);
        few.cost("libtorch's own error, passed on", 1, || drop(black_box(attempt(2))));
        few.cost("libtorch's own error, tried again", 20, || drop(ours()));
    }

    fn counting(&self) {
        let allocate = || drop(black_box(Tensor::empty([256], FLOATS)));
        // Many live blocks, as in a program, so that the table of blocks is not empty.
        let living = || (0..1000).map(|_| Tensor::empty([16], FLOATS)).collect::<Vec<_>>();
        let uncounted = living();
        let bare = self.cost("an empty tensor", 1000, allocate);
        cpu::count();
        let held = living();
        drop(uncounted);
        let counted = self.cost("the same, counted", 1000, allocate);
        drop(held);
        println!("{:<46} {:>8.0} ns  (bar: 30 ns)", "  more for a block", counted - bare);
    }

    /// The `narrow` loop over a tensor, by hand and by toma.
    fn chunks(&self, step: usize) {
        let data = Tensor::zeros([1024, 1024], FLOATS);
        let work = |chunk: &Tensor| drop(chunk.shallow_clone().fill_(1.0));
        let hand = || {
            for start in (0..1024).step_by(step) {
                work(&data.narrow(0, number(start), number(step)));
            }
        };
        let ours = || execute::with::<NoCache>().chunked(&data, step, |chunk, _, _| work(chunk));
        let name = format!("chunks of {step} of 1024 rows");
        println!("{name:<46} {:>9.3}x  (bar: 1.02x)", middle(self.pairs(ours, hand, ratio)));
        println!("{:<46} {:>9.3}x", "  by hand against by hand", middle(self.pairs(hand, hand, ratio)));
    }

    /// A failed attempt and its retry, against both without toma.
    fn failures(&self) {
        let _budget = Budget::beyond_allocated(3 << 12);
        let attempt = |rows: usize| Tensor::f_zeros([number(rows), 1024], FLOATS).map(drop);
        let panics = |rows: usize| drop(Tensor::zeros([number(rows), 1024], FLOATS));
        self.cost("a refused allocation", 50, || drop(attempt(4)));
        self.overhead(
            "retry after an error",
            (5, "100 us"),
            || drop(execute::with::<NoCache>().batch(4, attempt)),
            || drop((attempt(4), attempt(2))),
        );
        let device = toma_torch::Device::new(Device::Cpu);
        self.overhead(
            "the same, with libtorch's memory as `device`",
            (5, "100 us"),
            || drop(execute::with::<NoCache>().device(&device).batch(4, attempt)),
            || drop((attempt(4), attempt(2))),
        );
        self.overhead(
            "retry after a panic",
            (5, "100 us"),
            || execute::with::<NoCache>().batch(4, panics),
            || drop((catch_unwind(|| panics(4)), catch_unwind(|| panics(2)))),
        );
    }

    fn failures_in_backward(&self) {
        let weight = Tensor::ones([1024], FLOATS).set_requires_grad(true);
        let attempt = |rows: usize, panics: bool| {
            let loss = weight.unsqueeze(0).expand([number(rows), 1024], false).square().sum(Kind::Float);
            if !panics {
                return loss.f_backward();
            }
            loss.backward();
            Ok(())
        };
        attempt(1, false).expect("there is memory");
        // Two rows fit forward, one fits backward.
        let _budget = Budget::beyond_allocated(5 << 12);
        let caught = |rows, panics| drop(catch_unwind(AssertUnwindSafe(|| attempt(rows, panics))));
        for (panics, name) in
            [(false, "retry after an error of backward"), (true, "retry after a panic of backward")]
        {
            self.overhead(
                name,
                (5, "100 us"),
                || drop(execute::with::<NoCache>().batch(2, |rows| attempt(rows, panics))),
                || {
                    caught(2, panics);
                    caught(1, panics);
                },
            );
        }
    }

    /// The cost of guards in every attempt, and of the optional ones.
    fn guards(&self) {
        self.cost("a call with one attempt, modes guarded", 200, || {
            execute::with::<NoCache>().batch(1, |size| _ = black_box(size));
        });
        self.cost("a guard of the modes of one's own", 200, || drop(ModeGuard::new()));
        self.cost("taking the state of random numbers", 50, || drop(black_box(RngState::of(Device::Cpu))));
        let net = net();
        let rollback = Rollback::new().rng(Device::Cpu).and_then(|rollback| rollback.buffers(&net.variables));
        let rollback = rollback.and_then(|rollback| rollback.gradients(&net.variables.trainable_variables()));
        let rollback = rollback.expect("there is memory");
        self.cost("refreshing a rollback of 50,000 gradients", 50, || drop(black_box(rollback.refresh())));
        self.cost("restoring it", 50, || rollback.restore());
    }

    fn gradients(&self) {
        let net = net();
        let variables = net.variables.trainable_variables();
        let loss = || net.layers.forward(&net.input).square().mean(Kind::Float);
        let plain = || -> Result<(), TchError> { loss().f_backward() };
        let ours = || drop(accumulate_gradients(&loss(), &variables));
        let ratios = self.pairs(ours, || drop(plain()), ratio);
        println!("{:<46} {:>9.3}x", "all gradients or none, against backward", middle(ratios));
    }

    fn reads(&self) {
        let device = toma_torch::Device::new(Device::Cpu);
        self.cost("allocated bytes", 200, || _ = black_box(cpu::allocated_bytes()));
        self.cost("free memory of the CPU (bar: 1 us)", 200, || drop(black_box(device.read())));
        let _budget = Budget::beyond_allocated(1 << 30);
        self.cost("the same under a budget (bar: 1 us)", 200, || drop(black_box(device.read())));
    }
}

/// The measurements.
impl Bench {
    fn pairs<R>(&self, ours: impl Fn(), bare: impl Fn(), figure: impl Fn(Duration, Duration) -> R) -> Vec<R> {
        // Runs each once, because a first run takes longer.
        ours();
        bare();
        // First and last, so that neither order nor drift favors a side.
        let quadruple = |_| {
            let first = time(&ours);
            let bare = time(&bare) + time(&bare);
            figure((first + time(&ours)) / 2, bare / 2)
        };
        (0..self.rounds).map(quadruple).collect()
    }

    fn overhead(&self, name: &str, (times, bar): (u32, &str), ours: impl Fn(), bare: impl Fn()) {
        let nanoseconds = |took: Duration| took.as_secs_f64() * 1e9 / f64::from(times);
        let differences = self.pairs(
            || repeat(times, &ours),
            || repeat(times, &bare),
            |ours, bare| nanoseconds(ours) - nanoseconds(bare),
        );
        println!("{name:<46} {:>8.0} ns  (bar: {bar})", middle(differences));
    }

    /// Returns the cost in nanoseconds.
    fn cost(&self, name: &str, times: u32, work: impl Fn()) -> f64 {
        let samples = self.pairs(|| repeat(times, &work), || (), |took, _| took.as_secs_f64());
        let nanoseconds = middle(samples) * 1e9 / f64::from(times);
        println!("{name:<46} {nanoseconds:>8.0} ns");
        nanoseconds
    }
}

struct Net {
    variables: nn::VarStore,
    layers: nn::Sequential,
    input: Tensor,
}

/// A net of 50,000 weights, with gradients.
fn net() -> Net {
    let variables = nn::VarStore::new(Device::Cpu);
    let linear = |name, from, to| nn::linear(variables.root() / name, from, to, nn::LinearConfig::default());
    let layers = nn::seq().add(linear("1", 256, 192)).add_fn(Tensor::relu).add(linear("2", 192, 4));
    let net = Net { layers, input: Tensor::randn([32, 256], FLOATS), variables };
    net.layers.forward(&net.input).square().mean(Kind::Float).backward();
    net
}

fn repeat(times: u32, work: impl Fn()) {
    (0..times).for_each(|_| work());
}

fn ratio(ours: Duration, hand: Duration) -> f64 {
    ours.as_secs_f64() / hand.as_secs_f64()
}

fn middle(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn time(work: impl Fn()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

fn number(count: usize) -> i64 {
    i64::try_from(count).expect("small")
}
