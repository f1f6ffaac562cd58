//! The cost of an agreement of ranks against its bare operations, and the number of ranks that one store serves.
//!
//! Ranks are threads with connections of their own to one `TCPStore`. Times are of the clock, in the order a, b, b, a,
//! and ratios are medians. With `--test` every case runs once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::env;
use std::net::TcpListener;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use toma_core::ranks::{Group as _, RankState, Store as _, Subject, Vote};
use toma_torch::ranks::{Rendezvous, TcpStore};

const HOST: &str = "127.0.0.1";

fn main() {
    let is_test = env::args().any(|argument| argument == "--test");
    let (runs, rounds) = if is_test { (1, 3) } else { (9, 300) };
    for size in [2, 4] {
        let (bare, agreed) = exchanges(size, runs, rounds);
        let ratio = agreed.as_secs_f64() / bare.as_secs_f64();
        println!(
            "{size} ranks: an agreement takes {agreed:.1?}, bare add and get {bare:.1?}: {ratio:.2}x  (bar: 1.2x)"
        );
    }
    let operation = served(if is_test { 10 } else { 20_000 });
    println!("one store serves an operation in {operation:.1?}");
    simulate(operation);
}

fn free_port() -> u16 {
    TcpListener::bind((HOST, 0)).and_then(|listener| listener.local_addr()).expect("a free port").port()
}

/// Returns the medians of an exchange on rank 0: with bare operations, and by `Ranks`.
fn exchanges(size: usize, runs: usize, rounds: u32) -> (Duration, Duration) {
    let (ports, barrier) = ([free_port(), free_port()], Barrier::new(size));
    let run = |rank: usize| {
        let timeout = Duration::from_secs(60);
        let store = TcpStore::open(HOST, ports[0], rank == 0, timeout).expect("a store");
        let address = format!("{HOST}:{}", ports[1]);
        let ranks = Rendezvous::default().timeout(timeout).connect(&address, rank, size).expect("ranks");
        let (mut number, mut attempt) = (0, 0);
        let mut bare = || {
            number += 1;
            let (count, done) = (format!("c{number}"), format!("d{number}"));
            if store.add(&count, 1).expect("a sum") == i64::try_from(size).expect("few ranks") {
                store.set(&done, vec![0; 40]).expect("the store is there");
            }
            store.wait(&done, timeout).expect("the store is there").expect("it comes");
        };
        let mut agree = || {
            attempt += 1;
            let subject = Subject { attempt, ..Subject::new("pieces", "bench".to_owned()) };
            let vote = Vote { subject, state: RankState::Ready, next: 8, retry: 8 };
            ranks.cast(vote).and_then(|waiting| waiting()).expect("all agree");
        };
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..runs {
            for which in [0, 1, 1, 0] {
                barrier.wait();
                let time = timed(rounds, if which == 0 { &mut bare } else { &mut agree });
                times[which].push(time);
            }
        }
        times
    };
    let times = thread::scope(|scope| {
        let run = &run;
        let running: Vec<_> = (0..size).map(|rank| scope.spawn(move || run(rank))).collect();
        let mut times = running.into_iter().map(|rank| rank.join().expect("a rank does not panic"));
        let first = times.next().expect("there is a rank");
        times.for_each(drop);
        first
    });
    let [bare, agreed] = times.map(median);
    (bare, agreed)
}

fn timed(rounds: u32, run: &mut dyn FnMut()) -> Duration {
    let begun = Instant::now();
    for _ in 0..rounds {
        run();
    }
    begun.elapsed() / rounds
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The time in which one store serves an operation, while others wait for it.
fn served(count: u32) -> Duration {
    let store = TcpStore::open(HOST, free_port(), true, Duration::from_secs(60)).expect("a store");
    // Waits for the last response only.
    timed(1, &mut || {
        for _ in 0..count {
            store.set("key", vec![0; 60]).expect("the store is there");
        }
        store.add("end", 1).expect("a sum");
    }) / count
}

/// Simulates ranks that vote at one moment, over stores that serve one operation after the other.
///
/// With groups, each group has a store of its own, and its last rank votes for the group at the first store.
fn simulate(operation: Duration) {
    println!("\nsimulated: ranks  one store  groups of 32, each with its own");
    let mut suffices = 0;
    for size in (1..=10).map(|power| 1_usize << power) {
        let flat = agreement(size, operation);
        let groups = size.div_ceil(32);
        let grouped = agreement(size.min(32), operation)
            + if groups > 1 { agreement(groups, operation) } else { Duration::ZERO };
        println!("{size:>16}  {flat:>9.1?}  {grouped:>9.1?}");
        if flat <= Duration::from_millis(10) {
            suffices = size;
        }
    }
    println!("one store suffices for {suffices} ranks, where an agreement takes at most 10 ms");
}

/// Returns the end of one agreement, from the operations of all ranks in the order of their arrival at the store.
///
/// A rank sets its vote and adds itself to the count. The last one decides; the others wait for the decision and get
/// it.
fn agreement(size: usize, operation: Duration) -> Duration {
    // The time to the store or back, in addition to the store's own work.
    let way = Duration::from_micros(10);
    let mut arrivals: BinaryHeap<_> =
        (0..size).flat_map(|rank| [Reverse((way, rank, 0)), Reverse((way, rank, 1))]).collect();
    let (mut free, mut added, mut waiting, mut ends) = (Duration::ZERO, 0, Vec::new(), Duration::ZERO);
    while let Some(Reverse((arrives, rank, kind))) = arrivals.pop() {
        free = free.max(arrives) + operation;
        let back = free + 2 * way;
        match kind {
            0 => {}
            1 => {
                added += 1;
                arrivals.push(Reverse((back, rank, if added == size { 2 } else { 3 })));
            }
            2 => {
                ends = ends.max(free + way);
                arrivals.extend(waiting.drain(..).map(|rank| Reverse((back, rank, 4))));
                added += 1;
            }
            // A wait that arrives after the decision returns at once.
            3 if added > size => arrivals.push(Reverse((back, rank, 4))),
            3 => waiting.push(rank),
            _ => ends = ends.max(free + way),
        }
    }
    ends
}
