//! Two threads on one warm call site against one.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use toma::cache::SizeCache;
use toma::{GlobalCache, NoCache, StacktraceMemoryCache, execute};

use super::measure::median;

/// The lengths of a measurement.
pub(crate) struct Length {
    /// Time that a thread runs before it is measured, because a scheduler may start two threads on one processor, and
    /// takes a while to notice that another one idles.
    settling: Duration,
    calls: u32,
    rounds: usize,
}

pub(crate) const FULL: Length = Length { settling: Duration::from_millis(60), calls: 200_000, rounds: 15 };

pub(crate) const ONCE: Length = Length { settling: Duration::ZERO, calls: 100, rounds: 1 };

pub(crate) fn report(length: &Length) {
    println!("two threads on one warm call site, rate of each against one alone (bar: 0.90)");
    println!("  no-cache       {:.2}", one_against_two::<NoCache>(length));
    println!("  global-cache   {:.2}", one_against_two::<GlobalCache>(length));
    println!("  default-cache  {:.2}", one_against_two::<StacktraceMemoryCache>(length));
}

/// The median over the rounds of: time alone / time of the slower of two at once.
fn one_against_two<C: SizeCache + 'static>(length: &Length) -> f64 {
    let ratio = |_| {
        let alone = slowest::<C>(1, length);
        alone.as_secs_f64() / slowest::<C>(2, length).as_secs_f64()
    };
    median((0..length.rounds).map(ratio).collect(), f64::total_cmp)
}

fn slowest<C: SizeCache + 'static>(threads: usize, length: &Length) -> Duration {
    let waiting = AtomicUsize::new(threads);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let begun = Instant::now();
                    while begun.elapsed() < length.settling {
                        calls::<C>(1000);
                    }
                    // Busy, because a thread that sleeps may wake up on the other's processor.
                    waiting.fetch_sub(1, Ordering::AcqRel);
                    while waiting.load(Ordering::Acquire) > 0 {
                        spin_loop();
                    }
                    let start = Instant::now();
                    calls::<C>(length.calls);
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
