//! Nanoseconds per call and per chunk over the hand-written loop.

use std::future::Future as _;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use toma::classify::OutOfMemory;
use toma::memory::Host;
use toma::ranks::threads;
use toma::{GlobalCache, NoCache, StacktraceMemoryCache, execute};

use super::measure::pairs;

/// A case that can be timed and counted.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) run: fn(u32),
}

const CHUNKS: u32 = 1000;

pub(crate) const CASES: &[Case] = &[
    Case { name: "call/hand", run: hand_calls },
    Case { name: "call/no-cache", run: no_cache_calls },
    Case { name: "call/global-cache", run: global_calls },
    Case { name: "call/default-cache", run: default_calls },
    Case { name: "call/attribute-no-cache", run: attribute_calls },
    Case { name: "call/attribute-global-cache", run: attribute_global_calls },
    Case { name: "batch/no-cache", run: batch_calls },
    Case { name: "batch/global-cache-settled", run: settled_calls },
    Case { name: "call/device-no-cache", run: device_calls },
    Case { name: "call/one-rank", run: one_rank_calls },
    Case { name: "1000-chunks/hand", run: hand_chunks },
    Case { name: "1000-chunks/no-cache", run: no_cache_chunks },
    Case { name: "1000-chunks/global-cache", run: global_chunks },
    Case { name: "1000-chunks/by-cost", run: by_cost_chunks },
    Case { name: "1000-values/iter", run: iter_values },
    Case { name: "1000-values/stream", run: stream_values },
];

#[inline(never)]
fn body(start: usize, end: usize) {
    black_box(start ^ end);
}

#[inline(never)]
fn hand(items: usize, step: usize) {
    let mut start = 0;
    while start < items {
        let end = items.min(start + step);
        body(start, end);
        start = end;
    }
}

fn hand_calls(times: u32) {
    (0..times).for_each(|_| hand(black_box(8), black_box(8)));
}

fn no_cache_calls(times: u32) {
    (0..times).for_each(|_| execute::with::<NoCache>().range(0..black_box(8), black_box(8), body));
}

fn global_calls(times: u32) {
    (0..times).for_each(|_| execute::with::<GlobalCache>().range(0..black_box(8), black_box(8), body));
}

fn default_calls(times: u32) {
    (0..times)
        .for_each(|_| execute::with::<StacktraceMemoryCache>().range(0..black_box(8), black_box(8), body));
}

#[toma::range(initial = black_box(8), cache = NoCache)]
fn annotated(start: usize, end: usize) {
    body(start, end);
}

fn attribute_calls(times: u32) {
    (0..times).for_each(|_| annotated(0, black_box(8)));
}

#[toma::range(initial = black_box(8), cache = GlobalCache)]
fn annotated_global(start: usize, end: usize) {
    body(start, end);
}

fn attribute_global_calls(times: u32) {
    (0..times).for_each(|_| annotated_global(0, black_box(8)));
}

fn batch_calls(times: u32) {
    (0..times).for_each(|_| execute::with::<NoCache>().batch(black_box(8), |size| body(0, size)));
}

/// The first call learns that 4 fit; all others find that size in the cache and start there.
fn settled_calls(times: u32) {
    for _ in 0..times {
        let done = execute::with::<GlobalCache>().batch(black_box(8), |size| {
            body(0, size);
            if size > 4 { Err(OutOfMemory::new(None)) } else { Ok(()) }
        });
        black_box(done.is_ok());
    }
}

/// One rank has nobody to agree with, so once that is known a call behaves as without the option.
fn one_rank_calls(times: u32) {
    let rank = threads(1).pop().expect("there is one");
    for _ in 0..times {
        execute::with::<NoCache>().ranks(black_box(&rank)).range(0..black_box(8), black_box(8), body);
    }
}

/// A call on a device that is not contended.
fn device_calls(times: u32) {
    let device = Host::shared();
    for _ in 0..times {
        execute::with::<NoCache>().device(device).range(0..black_box(8), black_box(8), body);
    }
}

fn hand_chunks(times: u32) {
    (0..times).for_each(|_| hand(black_box(CHUNKS as usize), black_box(1)));
}

fn no_cache_chunks(times: u32) {
    let each = |_| execute::with::<NoCache>().range(0..black_box(CHUNKS as usize), black_box(1), body);
    (0..times).for_each(each);
}

fn global_chunks(times: u32) {
    let each = |_| execute::with::<GlobalCache>().range(0..black_box(CHUNKS as usize), black_box(1), body);
    (0..times).for_each(each);
}

fn by_cost_chunks(times: u32) {
    let items = || 0..black_box(CHUNKS as usize);
    let each = |_| execute::with::<NoCache>().by_cost(|_| 1_usize).range(items(), black_box(1), body);
    (0..times).for_each(each);
}

fn value(start: usize, end: usize) -> usize {
    body(start, end);
    end
}

fn iter_values(times: u32) {
    for _ in 0..times {
        let values = execute::with::<NoCache>().iter(0..black_box(CHUNKS as usize), black_box(1), value);
        values.for_each(|value| _ = black_box(value));
    }
}

/// Each value is ready when it is polled, so that no executor is measured.
fn stream_values(times: u32) {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..times {
        let body = async |start, end| value(start, end);
        let mut values = execute::with::<NoCache>().stream(0..black_box(CHUNKS as usize), black_box(1), body);
        while let Poll::Ready(Some(value)) = pin!(values.next()).poll(&mut context) {
            black_box(value);
        }
    }
}

/// Lets the shared caches learn a size at a call site that is not measured.
pub(crate) fn learn_something() {
    let body = |size| if size > 4 { Err(OutOfMemory::new(None)) } else { Ok(()) };
    let global = execute::with::<GlobalCache>().batch(8, body);
    let default = execute::with::<StacktraceMemoryCache>().batch(8, body);
    assert!(global.is_ok() && default.is_ok(), "half of the size succeeds");
}

pub(crate) fn report() {
    println!("per call, over the hand-written loop (bar: 50 ns for no-cache and global-cache)");
    for case in &CASES[1..9] {
        let pair = pairs(401, || hand_calls(1000), || (case.run)(1000));
        println!("  {:<28} {:>7.1} ns", case.name, pair.overhead_ns(1000));
    }
    let empty: &'static GlobalCache = Box::leak(Box::default());
    let unlearned = || {
        (0..1000).for_each(|_| {
            execute::with::<GlobalCache>().cache(empty).range(0..black_box(8), black_box(8), body);
        });
    };
    let pair = pairs(401, || hand_calls(1000), unlearned);
    println!("  {:<28} {:>7.1} ns", "call/nothing-learned-yet", pair.overhead_ns(1000));
    println!("per chunk or value, over the hand-written loop (bar: 20 ns for no-cache and global-cache)");
    for case in &CASES[10..] {
        let pair = pairs(401, || hand_chunks(1), || (case.run)(1));
        println!("  {:<28} {:>7.1} ns", case.name, pair.overhead_ns(CHUNKS));
    }
}
