//! Whole runs, including those of the oracle.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use cpu_time::ThreadTime;
use tch::Device;
use toma::{execute, report};
use toma_torch::DryRun;

use crate::cache::OnePlace;
use crate::policies::Entry;
use crate::source::{Shown, Source};
use crate::table::Runs;
use crate::world::{Stage, World};

/// Measurements of one world.
pub(crate) struct Bench {
    /// Runs of each policy with each kind of memory source.
    pub(crate) runs: Vec<Runs>,
    /// The best fixed size, and its seconds.
    pub(crate) best_size: usize,
    pub(crate) best: f64,
}

impl Bench {
    pub(crate) fn of(world: &World, subjects: &[(&Entry, Source)], rounds: usize) -> Self {
        let stage = Stage::new(world);
        let (best_size, best) = oracle(&stage, rounds);
        // In rounds, so that a busy machine disturbs all alike.
        let all: Vec<Vec<Runs>> = (0..rounds)
            .map(|_| {
                subjects.iter().map(|&(policy, source)| runs(&stage, policy, source, best_size)).collect()
            })
            .collect();
        let middle = |number: usize| middle(&all.iter().map(|round| round[number]).collect::<Vec<_>>());
        Self { runs: (0..subjects.len()).map(middle).collect(), best_size, best }
    }
}

/// The fixed size with the shortest run, among fractions of the limit.
fn oracle(stage: &Stage<'_>, rounds: usize) -> (usize, f64) {
    let limit = stage.world.limit;
    let sizes =
        [limit, limit * 7 / 8, limit * 3 / 4, limit * 5 / 8, limit / 2, limit / 4].map(|size| size.max(1));
    let mut best = (limit, f64::INFINITY);
    for size in (0..=rounds).flat_map(|_| sizes) {
        let time = fixed(stage, size);
        if time < best.1 {
            best = (size, time);
        }
    }
    best
}

/// Seconds of a run in steps of this size, by hand.
fn fixed(stage: &Stage<'_>, size: usize) -> f64 {
    let (begun, items) = (ThreadTime::now(), stage.world.items);
    for start in (0..items).step_by(size) {
        stage.attempt(start, items.min(start + size)).expect("the size fits");
    }
    begun.elapsed().as_secs_f64()
}

/// The key of the next cold run, so that it finds no sizes of earlier runs.
static COLD: AtomicU64 = AtomicU64::new(0);

/// A cold run and a warm one, each between two of the oracle's.
#[expect(clippy::cast_precision_loss, reason = "sizes are small")]
fn runs(stage: &Stage<'_>, policy: &Entry, source: Source, best_size: usize) -> Runs {
    let (cache, device) = (OnePlace::new(), toma_torch::Device::new(Device::Cpu));
    let shown = Shown(&device, source);
    let World { items, initial, limit, .. } = *stage.world;
    let key = COLD.fetch_add(1, Relaxed);
    let run = || {
        let begun = ThreadTime::now();
        let with = execute::with::<OnePlace>().cache(&cache).policy((policy.make)()).key(key);
        let with = if let Some(device) = shown.device() { with.device(device) } else { with };
        let with = if source == Source::Predicted { with.predict(&DryRun) } else { with };
        let result = with.range(0..items, initial, |start, end| stage.attempt(start, end));
        result.expect("a size of 1 fits");
        begun.elapsed().as_secs_f64()
    };
    let before = fixed(stage, best_size);
    let cold = run();
    let (out_of_memory, start) =
        report::last().map_or((0, initial), |report| (report.out_of_memory, report.start));
    // Without a failure no size is cached, and the next call begins with the same one.
    let kept = cache.settled().unwrap_or(start);
    let between = fixed(stage, best_size);
    let warm = run();
    let after = fixed(stage, best_size);
    Runs {
        cold: cold / f64::midpoint(before, between),
        warm: warm / f64::midpoint(between, after),
        out_of_memory,
        kept: kept as f64 / limit as f64,
    }
}

/// Each figure's median.
fn middle(rounds: &[Runs]) -> Runs {
    let of = |figure: fn(&Runs) -> f64| {
        let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
        figures.sort_unstable_by(f64::total_cmp);
        figures[figures.len() / 2]
    };
    let mut failures: Vec<usize> = rounds.iter().map(|runs| runs.out_of_memory).collect();
    failures.sort_unstable();
    let out_of_memory = failures[failures.len() / 2];
    Runs { cold: of(|runs| runs.cold), warm: of(|runs| runs.warm), out_of_memory, kept: of(|runs| runs.kept) }
}
