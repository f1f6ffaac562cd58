//! All policies where nothing is as it should be: sources that lie, clocks that stand still or jump, peaks
//! that shrink with the size, sizes at their extremes.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use toma::ladder::Ladder;
use toma::memory::{MemorySource, Reading, Usage};
use toma::policy::Policy;
use toma::testing::{FakeDevice, FakeOutOfMemory, StoppedClock};
use toma::{Adaptive, Bisect, Decay, GlobalCache, Halve, Throughput, execute};

/// What a source says instead of the truth, question by question.
type Says = fn(u64) -> io::Result<Reading>;
/// What it counts, question by question.
type Counts = fn(u64) -> Option<Usage>;
/// How long an attempt takes, by its number.
type Takes = fn(u64) -> Duration;

const SAYS: [(&str, Says); 6] = [
    ("nothing free", |_| Ok(Reading::new(0, 0))),
    ("everything free", |_| Ok(Reading::new(u64::MAX, u64::MAX))),
    ("more free than there is", |_| Ok(Reading::new(u64::MAX, 1))),
    ("in turns", |asked| Ok(Reading::new(if asked.is_multiple_of(2) { 0 } else { u64::MAX }, u64::MAX))),
    ("every second error", |asked| {
        if asked.is_multiple_of(2) {
            Err(io::Error::other("not now"))
        } else {
            Ok(Reading::new(1 << 20, 1 << 20))
        }
    }),
    ("ever more", |asked| Ok(Reading::new(asked << 20, u64::MAX))),
];

/// What it counts: nothing, or peaks and retries without rhyme or reason.
const COUNTS: [(&str, Counts); 4] = [
    ("nothing", |_| None),
    ("peaks that shrink", |asked| Some(Usage::new(0, (1 << 40) / (asked + 1)))),
    ("extremes", |asked| Some(Usage::new(u64::MAX, if asked.is_multiple_of(3) { 0 } else { u64::MAX }))),
    ("retries", |asked| Some(Usage::new(0, 0).retried(asked / 3))),
];

#[derive(Debug)]
struct Liar {
    says: Says,
    counts: Counts,
    /// What it says, what it counts, and what the clock does, in words.
    words: [&'static str; 3],
    asked: AtomicU64,
}

impl MemorySource for Liar {
    fn name(&self) -> &'static str {
        "liar"
    }

    fn read(&self) -> io::Result<Reading> {
        (self.says)(self.asked.fetch_add(1, Relaxed))
    }

    fn usage(&self) -> Option<Usage> {
        (self.counts)(self.asked.fetch_add(1, Relaxed))
    }

    fn staleness(&self) -> Duration {
        Duration::ZERO
    }
}

/// Sizes that are allowed, and the largest that fits.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    initial: usize,
    min: usize,
    multiple_of: usize,
    limit: usize,
}

const SIZES: [Sizes; 6] = [
    Sizes { initial: 512, min: 1, multiple_of: 1, limit: 100 },
    Sizes { initial: 8, min: 8, multiple_of: 1, limit: 8 },
    Sizes { initial: 64, min: 1, multiple_of: 64, limit: 64 },
    Sizes { initial: 100, min: 1, multiple_of: 48, limit: 50 },
    Sizes { initial: usize::MAX, min: 1, multiple_of: 1, limit: 3 },
    Sizes { initial: usize::MAX, min: 2, multiple_of: 7, limit: usize::MAX },
];

/// How the time of an attempt goes by.
const CLOCKS: [(&str, Takes); 3] = [
    ("stands still", |_| Duration::ZERO),
    ("jumps", |attempt| Duration::from_secs(if attempt.is_multiple_of(9) { 1 << 40 } else { 0 })),
    ("goes on", |_| Duration::from_millis(100)),
];

fn policies() -> [Box<dyn Policy>; 7] {
    [
        Box::new(Halve),
        Box::new(Decay::new(0.9)),
        Box::new(Bisect::within(0.0)),
        Box::new(Adaptive::default()),
        Box::new(Adaptive::default().waste(1.0).tolerance(0.0).headroom(0.0).doubt(0.0)),
        Box::new(Adaptive::default().waste(0.0).tolerance(1.0).headroom(1.0).doubt(1.0)),
        Box::new(Throughput::within(0.0)),
    ]
}

/// A policy, what it is told, and what it does.
#[derive(Debug)]
struct Run<'a> {
    policy: &'a dyn Policy,
    liar: &'a Liar,
    sizes: Sizes,
    attempts: Attempts,
}

/// Everything with everything.
fn everywhere(check: impl Fn(&Run<'_>)) {
    for (says, counts, takes) in liars() {
        for (policy, sizes) in policies().iter().flat_map(|policy| SIZES.map(|sizes| (policy, sizes))) {
            let words = [says.0, counts.0, takes.0];
            let liar = Liar { says: says.1, counts: counts.1, words, asked: AtomicU64::new(0) };
            check(&Run { policy: &**policy, liar: &liar, sizes, attempts: Attempts::new(takes.1) });
        }
    }
}

type Named<T> = (&'static str, T);

fn liars() -> Vec<(Named<Says>, Named<Counts>, Named<Takes>)> {
    let both = SAYS.into_iter().flat_map(|says| COUNTS.map(|counts| (says, counts)));
    both.flat_map(|(says, counts)| CLOCKS.map(|takes| (says, counts, takes))).collect()
}

#[derive(Debug)]
struct Attempts {
    clock: StoppedClock,
    takes: Takes,
    count: Cell<u64>,
    /// The size that failed last, and how often in a row.
    same: Cell<(usize, u32)>,
}

impl Attempts {
    fn new(takes: Takes) -> Self {
        Self { clock: StoppedClock::new(), takes, count: Cell::new(0), same: Cell::new((0, 0)) }
    }

    fn attempt(&self, size: usize, limit: usize) -> Result<(), FakeOutOfMemory> {
        self.count.set(self.count.get() + 1);
        self.clock.advance((self.takes)(self.count.get()));
        let device = FakeDevice::new(limit as u64);
        let result = device.alloc(size as u64).map(drop);
        let (last, times) = self.same.get();
        let again = if last == size { times + 1 } else { 1 };
        self.same.set(if result.is_ok() { (0, 0) } else { (size, again) });
        assert!(self.same.get().1 <= 1, "{size} fails twice in a row");
        result
    }
}

/// Makes a call of 1000 items, or of one batch.
fn call(run: &Run<'_>, cache: &GlobalCache, is_batch: bool) -> Result<(), FakeOutOfMemory> {
    let Sizes { initial, min, multiple_of, limit } = run.sizes;
    let ladder = Ladder::default().release_and_retry(false).without_waiting();
    let with = execute::with::<GlobalCache>().cache(cache).policy(run.policy).device(run.liar);
    let with = with.ladder(ladder).min(min).multiple_of(multiple_of);
    if is_batch {
        return with.batch(initial, |size| {
            assert!(size <= initial && size >= min && size.is_multiple_of(multiple_of), "{size}");
            run.attempts.attempt(size, limit)
        });
    }
    let (mut done, items) = (0, 1000);
    with.range(0..items, initial, |start, end| {
        assert!(start == done && end <= items && end - start <= initial, "{start} to {end}");
        run.attempts.attempt(end - start, limit)?;
        done = end;
        Ok(())
    })?;
    assert_eq!(done, items, "elements are left out");
    Ok(())
}

#[test]
fn every_call_ends_with_each_element_done_once_at_a_size_that_fits() {
    // As many attempts as `Decay` needs from the largest size there is; in a range, a few for each item.
    for (is_batch, calls, most) in [(false, 2, 4000), (true, 8, 500)] {
        everywhere(|run| {
            let cache = GlobalCache::new();
            for _ in 0..calls {
                let before = run.attempts.count.get();
                let result = call(run, &cache, is_batch);
                let made = run.attempts.count.get() - before;
                let fits = run.sizes.limit >= run.sizes.min.max(run.sizes.multiple_of);
                assert!(result.is_ok() || !fits, "{result:?} with {:?}, {run:?}", run.liar.words);
                assert!(made <= most, "{made} attempts with {:?}, {run:?}", run.liar.words);
            }
        });
    }
}
