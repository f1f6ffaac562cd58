//! What tensors cost: the loop against the hand-written one, a failed attempt, counting, reading.
//!
//! Times are medians of alternating pairs, so that a busy machine disturbs both sides alike.

use std::env;
use std::hint::black_box;
use std::time::{Duration, Instant};

use tch::{Device, Kind, Tensor};
use toma_core::cache::NoCache;
use toma_core::execute;
use toma_core::memory::MemorySource as _;
use toma_torch::cpu::{self, Budget};
use toma_torch::{ModeGuard, RngState};

const FLOATS: (Kind, Device) = (Kind::Float, Device::Cpu);

fn main() {
    let rounds = if env::args().any(|argument| argument == "--test") { 1 } else { 201 };
    tch::set_num_threads(1);
    // First, while the allocator is libtorch's own.
    let before = median(rounds, || repeat(1000, allocate));
    cpu::count();
    let counted = median(rounds, || repeat(1000, allocate));
    print("an empty tensor", before, 1000);
    print("the same, counted", counted, 1000);
    chunks(rounds, 4);
    chunks(rounds, 256);
    failures(rounds);
    reads(rounds);
}

/// The `narrow` loop over a tensor, by hand and by us.
fn chunks(rounds: usize, step: usize) {
    let data = Tensor::zeros([1024, 1024], FLOATS);
    let hand = || {
        for start in (0..1024).step_by(step) {
            let chunk = data.narrow(0, number(start), number(step));
            let _ = chunk.shallow_clone().fill_(1.0);
        }
    };
    let ours = || {
        execute::with::<NoCache>().chunked(&data, step, |chunk, _, _| {
            let _ = chunk.shallow_clone().fill_(1.0);
        });
    };
    let mut ratios: Vec<f64> =
        (0..rounds).map(|_| time(ours).as_secs_f64() / time(hand).as_secs_f64()).collect();
    ratios.sort_by(f64::total_cmp);
    println!("{:<40} {:.3}x (bar: 1.02x)", format!("chunks of {step} of 1024 rows"), ratios[rounds / 2]);
}

/// A failed attempt with its retry, against the attempts alone.
fn failures(rounds: usize) {
    let _budget = Budget::beyond_allocated(3 << 12);
    let attempt = |rows: usize| Tensor::f_zeros([number(rows), 1024], FLOATS);
    print("a refused allocation", median(rounds, || repeat(100, || drop(attempt(4)))), 100);
    let bare = median(rounds, || repeat(100, || (drop(attempt(4)), drop(attempt(2))).0));
    let ours = median(rounds, || repeat(100, || drop(execute::with::<NoCache>().batch(4, attempt))));
    print("a retry beyond its two attempts", ours.saturating_sub(bare), 100);
}

fn reads(rounds: usize) {
    let device = toma_torch::Device::new(Device::Cpu);
    print("allocated bytes", median(rounds, || repeat(1000, || _ = black_box(cpu::allocated_bytes()))), 1000);
    print("free memory of the CPU", median(rounds, || repeat(1000, || drop(black_box(device.read())))), 1000);
    print("a guard of the modes", median(rounds, || repeat(1000, || drop(ModeGuard::new()))), 1000);
    print(
        "a state of random numbers",
        median(rounds, || repeat(100, || drop(black_box(RngState::of(Device::Cpu))))),
        100,
    );
}

fn allocate() {
    drop(black_box(Tensor::empty([256], FLOATS)));
}

fn repeat(times: u32, mut work: impl FnMut()) {
    (0..times).for_each(|_| work());
}

fn median(rounds: usize, mut work: impl FnMut()) -> Duration {
    // Once for what only the first time takes.
    work();
    let mut samples: Vec<_> = (0..rounds).map(|_| time(&mut work)).collect();
    samples.sort();
    samples[rounds / 2]
}

fn time(mut work: impl FnMut()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

fn print(what: &str, total: Duration, times: u32) {
    println!("{what:<40} {:.0} ns", total.as_secs_f64() * 1e9 / f64::from(times));
}

fn number(count: usize) -> i64 {
    i64::try_from(count).expect("small")
}
