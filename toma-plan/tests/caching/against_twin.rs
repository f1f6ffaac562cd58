//! Random traces: after each step the replay and the twin are in the same state.

use std::cell::Cell as Counter;

use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof};
use proptest::sample::{Index, select};
use proptest::test_runner::{RngAlgorithm, TestCaseError, TestRunner};
use proptest::{prop_assert, prop_assert_eq};

use toma_plan::caching::{BlockId, CachingAllocator, Pool, Segment};

use crate::MIB;
use crate::twin::{Cell, Twin};

#[derive(Clone, Debug)]
struct Trace {
    capacity: u64,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    Allocate(u64),
    Free(Index),
    Release,
}

fn trace() -> impl Strategy<Value = Trace> {
    let capacity = prop_oneof![0..=64 * MIB, 0..=256 * MIB];
    (capacity, vec(step(), 1..=60)).prop_map(|(capacity, steps)| Trace { capacity, steps })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => bytes().prop_map(Step::Allocate),
        9 => any::<Index>().prop_map(Step::Free),
        1 => Just(Step::Release),
    ]
}

/// Sizes around every limit of the rules, and in between.
fn bytes() -> impl Strategy<Value = u64> {
    let limits =
        vec![512, MIB, 2 * MIB, 10 * MIB, 11 * MIB, 12 * MIB, 19 * MIB, 20 * MIB, 22 * MIB, 40 * MIB];
    prop_oneof![
        4 => (select(limits), 0..=1026_u64).prop_map(|(limit, above)| (limit + above).saturating_sub(513)),
        2 => 0..=4096_u64,
        2 => 0..=2 * MIB,
        3 => MIB..=12 * MIB,
        2 => 8 * MIB..=64 * MIB,
        1 => (1 << 60) - 2..=u64::MAX,
    ]
}

/// Both allocators, and the allocations that are alive in both.
struct Pair {
    replay: CachingAllocator,
    twin: Twin,
    alive: Vec<(BlockId, Option<u64>)>,
    /// Peaks of requested, allocated and reserved bytes.
    peaks: [u64; 3],
    failures: u64,
}

impl Pair {
    fn new(trace: &Trace) -> Self {
        let replay = CachingAllocator::new(trace.capacity);
        let twin = Twin { capacity: trace.capacity, segments: Vec::new(), retries: 0 };
        Self { replay, twin, alive: Vec::new(), peaks: [0; 3], failures: 0 }
    }

    fn play(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Allocate(bytes) => {
                let expected = (*bytes > 0).then(|| self.twin.allocate(*bytes));
                let reported = self.replay.allocate(*bytes);
                prop_assert_eq!(reported.is_ok(), expected != Some(None));
                self.failures += u64::from(reported.is_err());
                self.alive.extend(reported.ok().map(|id| (id, expected.flatten())));
            }
            Step::Free(index) if !self.alive.is_empty() => {
                let (id, address) = self.alive.swap_remove(index.index(self.alive.len()));
                if let Some(address) = address {
                    self.twin.free(address);
                }
                prop_assert_eq!(self.replay.free(id), Ok(()));
            }
            Step::Free(_) => {}
            Step::Release => {
                self.twin.release();
                self.replay.release_cached_memory();
            }
        }
        self.compare()
    }

    fn compare(&mut self) -> Result<(), TestCaseError> {
        let expected: Vec<_> =
            self.twin.segments.iter().map(|it| (it.small, it.bytes(), it.cells.clone())).collect();
        prop_assert_eq!(segments(&self.replay), expected);

        let cells = || self.twin.segments.iter().flat_map(|segment| &segment.cells);
        let requested = cells().filter_map(|cell| cell.2).sum();
        let allocated = cells().filter(|cell| cell.2.is_some()).map(|cell| cell.0).sum();
        let now = [requested, allocated, self.twin.reserved()];
        self.peaks.iter_mut().zip(now).for_each(|(peak, bytes)| *peak = bytes.max(*peak));
        let reported = self.replay.stats();
        prop_assert_eq!(
            [reported.requested, reported.allocated, reported.reserved].map(|bytes| bytes.current),
            now
        );
        prop_assert_eq!(
            [reported.requested, reported.allocated, reported.reserved].map(|bytes| bytes.peak),
            self.peaks
        );
        prop_assert_eq!(reported.retries, self.twin.retries);
        Ok(())
    }
}

fn segments(replay: &CachingAllocator) -> Vec<(bool, u64, Vec<Cell>)> {
    let segments = replay.segments().map(|segment| {
        let cells = segment.blocks.iter().map(|block| (block.bytes, block.address, block.requested));
        let is_small = segment.blocks.iter().all(|block| block.pool == Pool::Small);
        (is_small, segment.bytes, cells.collect())
    });
    segments.collect()
}

#[test]
fn ten_thousand_random_traces() {
    let config =
        ProptestConfig { cases: 10_000, rng_algorithm: RngAlgorithm::XorShift, ..ProptestConfig::default() };
    let reached = [const { Counter::new(0) }; 3];
    let follows = |trace: Trace| {
        let mut pair = Pair::new(&trace);
        trace.steps.iter().try_for_each(|step| pair.play(step))?;
        let helped = pair.twin.retries.saturating_sub(pair.failures);
        let of_pair = [pair.failures, pair.twin.retries, helped];
        reached.iter().zip(of_pair).for_each(|(counter, times)| counter.set(counter.get() + times.min(1)));
        Ok(())
    };
    TestRunner::new(config).run(&trace(), follows).unwrap();
    // Traces with out of memory, retries, and retries that helped.
    let reached = reached.map(|counter| counter.get());
    assert!(reached.iter().all(|&traces| traces > 100), "{reached:?}");
}

/// Bytes and requested bytes of each block, by segment: without addresses.
fn shape(replay: &CachingAllocator) -> Vec<Vec<(u64, Option<u64>)>> {
    let cells =
        |segment: Segment| segment.blocks.iter().map(|block| (block.bytes, block.requested)).collect();
    replay.segments().map(cells).collect()
}

#[test]
fn one_that_resumes_goes_on_as_the_one_before() {
    let goes_on = |(trace, later): (Trace, Vec<u64>)| {
        let mut pair = Pair::new(&trace);
        trace.steps.iter().try_for_each(|step| pair.play(step))?;
        let mut before = pair.replay;
        let mut resumed = CachingAllocator::resumed(trace.capacity, before.segments());
        prop_assert_eq!(shape(&resumed), shape(&before));
        let older: Vec<_> =
            shape(&before).concat().into_iter().filter_map(|(_, requested)| requested).collect();
        for bytes in later {
            prop_assert_eq!(resumed.allocate(bytes).is_ok(), before.allocate(bytes).is_ok());
            prop_assert_eq!(shape(&resumed), shape(&before));
        }
        for (id, _) in pair.alive {
            before.free(id).unwrap();
        }
        prop_assert!(older.iter().all(|bytes| resumed.free_older(*bytes)));
        prop_assert!(older.iter().all(|bytes| !resumed.free_older(*bytes)), "each is freed once");
        prop_assert_eq!(resumed.stats().requested.current, before.stats().requested.current);
        Ok(())
    };
    let config = ProptestConfig { rng_algorithm: RngAlgorithm::XorShift, ..ProptestConfig::default() };
    TestRunner::new(config).run(&(trace(), vec(bytes(), 0..=20)), goes_on).unwrap();
}
