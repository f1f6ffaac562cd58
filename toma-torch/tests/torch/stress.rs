//! Sixteen threads that work with real tensors under a budget that moves: every row is done once and right, a thread
//! that waits goes on, failures unrelated to memory end where they must, the budget is never exceeded, and nothing is
//! left over.
//!
//! `TOMA_STRESS_SEED=SEED` repeats the choices of a run, `TOMA_STRESS_ATTEMPTS=N` makes more attempts than the 20,000
//! of the checks, and `cargo xtask nightly` makes a million.

mod log;
mod mishap;
mod rows;
mod worker;

use std::io::{Write as _, stderr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::abort;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use toma::GlobalCache;
use toma::observe::{Event, EventKind, Observer};
use toma_torch::cpu::{self, Budget};

use crate::stage::{alone, setting};
use mishap::Counts;
use worker::{LONG, Worker};

const THREADS: usize = 16;

/// The largest budget beyond the tensors that the threads hold all the time.
const MOST_BYTES: u64 = 1 << 19;

/// A thread that makes no attempt for so long is stuck.
const PATIENCE: Duration = Duration::from_secs(90);

/// State that all threads share.
#[derive(Default)]
struct World {
    seed: u64,
    goal: u64,
    cache: GlobalCache,
    counts: Counts,
    /// Threads that have made their tensors, and threads that are done.
    ready: AtomicU64,
    ended: AtomicU64,
    failed: AtomicBool,
}

#[test]
fn stress_with_real_tensors_and_a_moving_budget() {
    let _alone = alone();
    let world = World::new();
    let refused = || toma_torch::Device::new(tch::Device::Cpu).stats().unwrap().ooms;
    let (before, refused_before, began) = (cpu::allocated_bytes(), refused(), Instant::now());
    thread::scope(|scope| {
        let mut seeds = Rng::with_seed(world.seed);
        let chaos = seeds.fork();
        for thread in 0..THREADS {
            let (world, random) = (&world, seeds.fork());
            scope.spawn(move || world.work(thread, random));
        }
        world.disturb(chaos);
    });
    assert!(!world.failed.load(Relaxed), "see above; TOMA_STRESS_SEED={} makes the same choices", world.seed);
    assert_eq!(cpu::allocated_bytes(), before, "bytes are left over");
    let refused = refused() - refused_before;
    let (seed, counts) = (world.seed, &world.counts);
    let line =
        format!("stress: seed {seed}, {:.1?}, {refused} refused allocations, {counts}\n", began.elapsed());
    stderr().write_all(line.as_bytes()).unwrap();
    assert!(refused > 0, "it proves nothing: {line}");
    counts.check();
}

impl World {
    fn new() -> Self {
        Self {
            seed: setting("TOMA_STRESS_SEED").unwrap_or_else(|| fastrand::u64(..)),
            goal: setting("TOMA_STRESS_ATTEMPTS").unwrap_or(20_000),
            ..Self::default()
        }
    }

    fn is_over(&self) -> bool {
        self.failed.load(Relaxed) || self.counts.attempts() >= self.goal
    }

    fn work(&self, thread: usize, random: Rng) {
        // A single thread keeps the order of sums fixed, so that values compare exactly. The number is per thread.
        tch::set_num_threads(1);
        let result = catch_unwind(AssertUnwindSafe(|| {
            let mut worker = Worker::new(self, thread, random);
            self.ready.fetch_add(1, Relaxed);
            while !self.is_over() {
                worker.one_call();
                self.counts.calls.fetch_add(1, Relaxed);
            }
        }));
        self.failed.fetch_or(result.is_err(), Relaxed);
        self.ended.fetch_add(1, Relaxed);
    }

    /// Moves the budget every few milliseconds, and checks that it holds.
    fn disturb(&self, mut random: Rng) {
        while self.ready.load(Relaxed) < THREADS as u64 && !self.failed.load(Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        let held = cpu::allocated_bytes();
        let mut progress = Progress { seen: [0; THREADS], since: [Instant::now(); THREADS] };
        let mut budget = Budget::new(held + MOST_BYTES);
        while self.ended.load(Relaxed) < THREADS as u64 {
            let bytes = held + if random.u8(..4) == 0 { MOST_BYTES } else { random.u64(..MOST_BYTES / 4) };
            drop(std::mem::replace(&mut budget, Budget::new(bytes)));
            // An allocation that began earlier is checked against an earlier budget, and raises the peak when it ends.
            self.let_attempts_end();
            // Allocated bytes stay, even beyond the new budget.
            let most = bytes.max(cpu::allocated_bytes());
            cpu::reset_peak_allocated_bytes();
            thread::sleep(Duration::from_micros(random.u64(500..3000)));
            let peak = cpu::peak_allocated_bytes();
            let exceeded = peak > most;
            if exceeded {
                let _ = writeln!(stderr(), "stress: {peak} bytes under a budget of {bytes}, at most {most}");
            }
            self.failed.fetch_or(exceeded, Relaxed);
            progress.check(self);
        }
    }

    /// Waits until each attempt that is running now has ended, unless its thread is stuck.
    fn let_attempts_end(&self) {
        let now = || std::array::from_fn::<_, THREADS, _>(|thread| self.counts.current(thread));
        let (begun, since) = (now(), Instant::now());
        let goes_on = |(begun, now): (Option<u64>, Option<u64>)| begun.is_some() && begun == now;
        while begun.into_iter().zip(now()).any(goes_on) && since.elapsed() < PATIENCE {
            thread::yield_now();
        }
    }
}

impl Observer for World {
    fn observe(&self, event: &Event<'_>) {
        if let EventKind::Waited { elapsed, .. } = event.kind {
            self.counts.waits.fetch_add(1, Relaxed);
            if elapsed >= LONG {
                let _ = writeln!(stderr(), "stress: waited {elapsed:?} in vain");
                self.failed.store(true, Relaxed);
            }
        }
    }
}

/// Attempts of each thread, and the time of its last progress.
struct Progress {
    seen: [u64; THREADS],
    since: [Instant; THREADS],
}

impl Progress {
    /// Ends the process with a line on each thread when one of them is stuck.
    fn check(&mut self, world: &World) {
        for (thread, attempts) in world.counts.attempts.iter().enumerate() {
            let attempts = attempts.load(Relaxed);
            if self.seen[thread] != attempts {
                (self.seen[thread], self.since[thread]) = (attempts, Instant::now());
            }
        }
        if self.since.iter().any(|since| since.elapsed() > PATIENCE) && !world.is_over() {
            let ago = self.since.map(|since| since.elapsed());
            // Written straight to the stream, because output kept by the test harness is lost with the process.
            let _ = writeln!(stderr(), "stress: no progress, TOMA_STRESS_SEED={}: {ago:.1?}", world.seed);
            abort();
        }
    }
}
