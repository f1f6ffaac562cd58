//! Programs that are killed if they use too much memory. With `calibrated` none is, and most of the memory is used.

#![cfg(target_os = "linux")]

#[path = "common/child.rs"]
mod child;
#[path = "common/resident.rs"]
mod resident;
#[path = "common/rounds.rs"]
mod rounds;

use std::hint::black_box;
use std::process::exit;
use std::sync::{Mutex, PoisonError};

use toma::memory::{MemorySource, Resident};
use toma::{NoCache, execute};

/// Exit code of a process that was killed (SIGKILL), as a shell shows it.
const KILLED: i32 = 137;

/// Bytes that the pieces of a program use.
#[derive(Clone, Copy, Debug)]
struct Program {
    constant: usize,
    each: usize,
    square: usize,
    /// The program is killed if it uses more bytes than this in addition to those resident before the work.
    limit: usize,
    /// Bytes that are allocated and freed before the work.
    freed_before: usize,
}

impl Program {
    fn drawn(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let (limit, best) = (random.usize(24 << 20..48 << 20), random.usize(20..420));
        let constant = if seed.is_multiple_of(3) { 0 } else { random.usize(0..limit * 2 / 5) };
        let left = limit - constant;
        let (each, square) =
            if seed.is_multiple_of(2) { (left / best, 0) } else { (0, left / (best * best)) };
        Self { constant, each, square, limit, freed_before: random.usize(0..16 << 20) }
    }

    fn takes(&self, size: usize) -> usize {
        self.constant + self.each * size + self.square * size * size
    }

    fn best(&self) -> usize {
        (1..=self.limit).take_while(|&size| self.takes(size) <= self.limit).last().unwrap()
    }

    /// Works on many items and exits with the last size, leaving out the smaller rest at the end.
    fn run(self, is_calibrated: bool) -> ! {
        // Loading a model does the same: many of the freed bytes stay with the allocator.
        drop((0..self.freed_before / 4096).map(|_| vec![1_u8; 4096]).collect::<Vec<_>>());
        let memory = Resident::now().unwrap();
        let most = resident::bytes("VmRSS") + u64::try_from(self.limit).unwrap();
        let memory = memory.at_most(most);
        let items = self.best() * 10;
        let piece = |start: usize, end: usize| {
            let taken = vec![1_u8; self.takes(end - start)];
            if resident::bytes("VmHWM") > most + (1 << 20) {
                exit(KILLED);
            }
            black_box(taken);
            end - start
        };
        let form = execute::with::<NoCache>();
        let sizes = if is_calibrated {
            form.calibrated(&memory).map(0..items, items, piece)
        } else {
            form.map(0..items, items, piece)
        };
        assert_eq!(sizes.iter().sum::<usize>(), items);
        let (largest, best) = (sizes.iter().max().unwrap(), self.best());
        assert!(largest * 10 >= best * 8, "{largest} of {best}: {sizes:?}, {self:?}");
        exit(0)
    }
}

#[test]
fn none_is_killed_that_grows_and_all_that_do_not() {
    for seed in 0..rounds::rounds(4, 25) {
        for is_calibrated in [true, false] {
            let settings = [
                ("SEED", seed.to_string()),
                ("CALIBRATED", is_calibrated.to_string()),
                // Otherwise glibc keeps freed bytes, also between two pieces, up to 32 MiB at a time.
                ("MALLOC_MMAP_THRESHOLD_", (128 << 10).to_string()),
            ];
            let settings = settings.each_ref().map(|(name, value)| (*name, &**value));
            let Some(ended) = child::run("none_is_killed_that_grows_and_all_that_do_not", &settings) else {
                let read = |name| std::env::var(name).unwrap();
                Program::drawn(read("SEED").parse().unwrap()).run(read("CALIBRATED") == "true");
            };
            let expected = if is_calibrated { 0 } else { KILLED };
            assert_eq!(ended.status.code(), Some(expected), "{seed}: {:?}", ended.stderr);
        }
    }
}

/// Runs the tests one at a time, because resident bytes are counted for the whole process.
fn alone() -> impl Drop {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tests sizes by cost, also where the first item costs more than the first step, which is 1.
#[test]
fn costs_grow_as_counts_do() {
    let _alone = alone();
    let memory = Resident::now().unwrap();
    let sizes = execute::with::<NoCache>()
        .calibrated(&memory)
        .by_padded_cost(|item| 300 + item % 200)
        .in_buckets()
        .map(0..3000, 1 << 20, |items| vec![items.len(); items.len()]);
    assert!(sizes.contains(&1) && sizes.iter().max() > Some(&500), "{:?}", sizes.iter().max());
}

#[test]
fn no_more_is_free_than_may_be_resident() {
    let _alone = alone();
    let free = |memory: &Resident| memory.read().unwrap().free_bytes;
    let memory = Resident::now().unwrap();
    let all = free(&memory);
    let some = free(&memory.at_most(1 << 30));
    assert!(some <= 1 << 30 && some > 1 << 28 && all > some, "{some} of {all}");
    assert!(free(&Resident::now().unwrap().at_most(1)) < 1 << 20);
}

/// Tests that memory that is returned to the system after the beginning hides nothing.
#[test]
fn the_base_falls_with_what_is_given_back() {
    let _alone = alone();
    let old = black_box(vec![1_u8; 200 << 20]);
    let memory = Resident::now().unwrap();
    drop(old);
    memory.reset_peak();
    let taken = black_box(vec![1_u8; 150 << 20]);
    let peak = memory.usage().unwrap().peak_allocated_bytes;
    drop(taken);
    assert!(peak > 140 << 20, "{peak}");
}

#[test]
#[should_panic(expected = "calibrate: host counts no bytes: take `memory::Resident`, which does")]
fn memory_that_counts_nothing_is_refused() {
    // The backtrace that the panic prints takes megabytes.
    let _alone = alone();
    let _ = execute::with::<NoCache>().calibrated(toma::memory::Host::shared());
}

#[test]
fn a_batch_grows_from_call_to_call() {
    let _alone = alone();
    let (memory, cache) = (Resident::now().unwrap(), toma::GlobalCache::new());
    let call = || {
        execute::with::<NoCache>().cache(&cache).calibrated(&memory).batch(100, |size| vec![size; 1 << 12][0])
    };
    let sizes: Vec<_> = (0..5).map(|_| call()).collect();
    assert_eq!(sizes[0], 1);
    assert!(
        sizes.is_sorted() && sizes[4] > 1 && sizes.windows(2).all(|pair| pair[1] <= pair[0] * 4),
        "{sizes:?}"
    );
}
