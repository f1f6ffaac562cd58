//! Two threads on one warm call site against one.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use toma::{GlobalCache, NoCache, SizeCache, StacktraceMemoryCache, execute};

const CALLS: u32 = 200_000;
const ROUNDS: usize = 15;

pub(crate) fn report() {
    println!("two threads on one warm call site, rate of each against one alone (bar: 0.90)");
    println!("  no-cache       {:.2}", one_against_two::<NoCache>());
    println!("  global-cache   {:.2}", one_against_two::<GlobalCache>());
    println!("  default-cache  {:.2}", one_against_two::<StacktraceMemoryCache>());
}

/// The median over the rounds of: time alone / time of the slower of two at once.
fn one_against_two<C: SizeCache + 'static>() -> f64 {
    let mut ratios: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let alone = slowest::<C>(1);
            alone.as_secs_f64() / slowest::<C>(2).as_secs_f64()
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ROUNDS / 2]
}

fn slowest<C: SizeCache + 'static>(threads: usize) -> Duration {
    let barrier = Barrier::new(threads);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    calls::<C>(1000);
                    barrier.wait();
                    let start = Instant::now();
                    calls::<C>(CALLS);
                    start.elapsed()
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).max().unwrap_or_default()
    })
}

#[inline(never)]
fn calls<C: SizeCache + 'static>(times: u32) {
    for _ in 0..times {
        execute::with::<C>().range(0..8, 8, |start, end| _ = black_box(start ^ end));
    }
}
