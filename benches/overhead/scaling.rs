//! Two threads on one warm call site against one.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use toma::{GlobalCache, NoCache, SizeCache, StacktraceMemoryCache, execute};

use super::measure::median;

/// How long a thread runs before it is measured: a scheduler may start two threads on one processor,
/// and takes a while to notice that another one idles.
const SETTLING: Duration = Duration::from_millis(60);

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
    let ratio = |_| {
        let alone = slowest::<C>(1);
        alone.as_secs_f64() / slowest::<C>(2).as_secs_f64()
    };
    median((0..ROUNDS).map(ratio).collect(), f64::total_cmp)
}

fn slowest<C: SizeCache + 'static>(threads: usize) -> Duration {
    let waiting = AtomicUsize::new(threads);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let begun = Instant::now();
                    while begun.elapsed() < SETTLING {
                        calls::<C>(1000);
                    }
                    // Busy, because whoever sleeps may wake up on the other's processor.
                    waiting.fetch_sub(1, Ordering::AcqRel);
                    while waiting.load(Ordering::Acquire) > 0 {
                        spin_loop();
                    }
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
