//! Items that fit nowhere, among others: the cost of finding them, and that they change nothing else.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use toma::cache::Remembered;
use toma::policy::Policy;
use toma::testing::{FakeDevice, FakeOutOfMemory, StoppedClock};
use toma::{GlobalCache, NoCache, execute};

/// Bytes of an item that fits nowhere.
const TOO_MUCH: u64 = 1 << 40;

/// Cost and needed bytes of each item, which are equal except for items that fit nowhere.
#[derive(Clone, Debug)]
struct World {
    items: Vec<(u64, u64)>,
    initial: usize,
    memory: u64,
    /// True if the memory can report free bytes and peaks.
    is_counted: bool,
}

/// Records of a call.
#[derive(Debug)]
struct Outcome {
    attempts: usize,
    failures: usize,
    left_out: Vec<usize>,
    remembered: Option<Remembered>,
}

impl Outcome {
    /// Returns the smallest size known to fail.
    fn failure(&self) -> Option<usize> {
        self.remembered.as_ref()?.bounds.smallest_failure
    }

    fn settled(&self) -> Option<usize> {
        self.remembered.as_ref().map(|remembered| remembered.settled)
    }
}

impl World {
    fn left_out(&self) -> Vec<usize> {
        (0..self.items.len()).filter(|&item| self.items[item].1 == TOO_MUCH).collect()
    }

    /// Returns the world without the items that fit nowhere.
    fn without(&self) -> Self {
        let items = self.items.iter().copied().filter(|&(_, need)| need != TOO_MUCH).collect();
        Self { items, ..self.clone() }
    }

    fn run(&self, policy: &dyn Policy) -> Outcome {
        let (device, cache, clock) = (FakeDevice::new(self.memory), GlobalCache::new(), StoppedClock::new());
        let mut outcome = Outcome { attempts: 0, failures: 0, left_out: Vec::new(), remembered: None };
        let with = execute::with::<NoCache>().cache(&cache).policy(policy).name("world");
        let with = if self.is_counted { with.device(&device) } else { with };
        let with = with.by_cost(|item| self.items[item].0).left_out(|item| outcome.left_out.push(item.index));
        let done = with.range(0..self.items.len(), self.initial, |start, end| {
            let need: u64 = self.items[start..end].iter().map(|(_, need)| need).sum();
            outcome.attempts += 1;
            clock.advance(Duration::from_millis(100 + need.min(self.memory)));
            let memory = device.alloc(need);
            outcome.failures += usize::from(memory.is_err());
            memory.map(drop)
        });
        let done: Result<(), FakeOutOfMemory> = done;
        done.unwrap();
        outcome.remembered = cache.entries().first().map(|entry| entry.remembered.clone());
        outcome
    }

    /// Returns how often the first size can be halved.
    fn halvings(&self) -> usize {
        self.initial.ilog2() as usize
    }
}

/// Items of equal weight, and some in the first half that fit nowhere, with a weight that is drawn for them.
fn worlds<W: Strategy<Value = u64>>(heavy: fn(u64, usize) -> W) -> impl Strategy<Value = World> {
    let shape = (3..6_u32, 0..4_u32, 2..40_u64, any::<bool>(), 0..6_usize);
    shape.prop_flat_map(move |(step, tight, weight, is_counted, count)| {
        let initial = usize::try_from(weight).unwrap() << step;
        let all = 12_usize << step;
        let places = subsequence((0..all / 2).collect::<Vec<_>>(), count);
        let costs = prop::collection::vec(heavy(weight, initial), count);
        (places, costs).prop_map(move |(places, costs)| {
            let mut items = vec![(weight, weight); all];
            for (place, cost) in places.into_iter().zip(costs) {
                items.insert(place, (cost, TOO_MUCH));
            }
            World { items, initial, memory: initial as u64 >> tight, is_counted }
        })
    })
}

/// Any weight above the floor, far below and far above the weights that fit.
fn any_weight(_: u64, initial: usize) -> impl Strategy<Value = u64> {
    prop_oneof![2..20_u64, 2..2 * initial as u64]
}

fn same_weight(weight: u64, _: usize) -> impl Strategy<Value = u64> {
    Just(weight)
}

proptest! {
    #[test]
    fn each_fails_hardly_more_often_than_the_step_can_be_halved(
        (world, policy) in (worlds(any_weight), select(&crate::cost::POLICIES[..3])),
    ) {
        let (with, without) = (world.run(&*policy()), world.without().run(&*policy()));
        prop_assert_eq!(&with.left_out, &world.left_out());
        let most = without.failures + with.left_out.len() * (world.halvings() + 1);
        prop_assert!(with.failures <= most, "{:?}: {:?} instead of {:?}", policy(), with, without);
    }

    #[test]
    fn they_change_no_size((world, policy) in (worlds(same_weight), select(&crate::cost::POLICIES[..3]))) {
        let (with, without) = (world.run(&*policy()), world.without().run(&*policy()));
        prop_assert_eq!(&with.left_out, &world.left_out());
        prop_assert_eq!(with.settled(), without.settled(), "{:?}", policy());
        let failure = with.failure();
        prop_assert!(failure.is_none_or(|size| size as u64 > world.memory), "{:?}: {:?}", policy(), failure);
        // On the way to each item some smaller pieces succeed, and one after it.
        let most = without.attempts + with.left_out.len() * 2 * (world.halvings() + 1);
        prop_assert!(with.attempts <= most, "{:?}: {:?} instead of {:?}", policy(), with, without);
    }
}

/// Each item that remains costs one search.
#[test]
fn memory_that_is_gone_ends_the_call() {
    let (device, mut attempts, mut left_out) = (FakeDevice::new(1000), 0, 0);
    let with = execute::with::<NoCache>().by_cost(|_| 10).left_out(|_| left_out += 1);
    let done = with.range(0..400, 1000, |start, end| {
        attempts += 1;
        device.alloc(if end > 200 { TOO_MUCH } else { 10 * (end - start) as u64 }).map(drop)
    });
    done.unwrap();
    assert_eq!(left_out, 200);
    assert!(attempts <= 2 + 200 * (1000_usize.ilog2() as usize + 1), "{attempts}");
}
