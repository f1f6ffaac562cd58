//! Items that fit nowhere, among others: what finding them costs, and that they change nothing else.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::subsequence;
use toma::cache::Remembered;
use toma::policy::Policy;
use toma::testing::{FakeDevice, FakeOutOfMemory, StoppedClock};
use toma::{Adaptive, Bisect, GlobalCache, Halve, NoCache, execute};

/// Needs more than there is.
const OVERSIZE: u64 = 1 << 40;

/// What items cost and need: the same, but for those that fit nowhere.
#[derive(Clone, Debug)]
struct World {
    items: Vec<(u64, u64)>,
    initial: usize,
    memory: u64,
    /// Whether the memory can be asked what is free and what was taken.
    is_counted: bool,
}

/// What a call came to.
#[derive(Debug)]
struct Outcome {
    attempts: usize,
    failures: usize,
    left_out: Vec<usize>,
    remembered: Option<Remembered>,
}

impl Outcome {
    /// The smallest size known to fail.
    fn failure(&self) -> Option<usize> {
        self.remembered.as_ref()?.bounds.smallest_failure
    }

    fn settled(&self) -> Option<usize> {
        self.remembered.as_ref().map(|remembered| remembered.settled)
    }
}

impl World {
    fn oversize(&self) -> Vec<usize> {
        (0..self.items.len()).filter(|&item| self.items[item].1 == OVERSIZE).collect()
    }

    /// The same without what fits nowhere.
    fn without(&self) -> Self {
        let items = self.items.iter().copied().filter(|&(_, need)| need != OVERSIZE).collect();
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

    /// How often the first size can be halved.
    fn halvings(&self) -> usize {
        self.initial.ilog2() as usize
    }
}

/// Items that weigh the same, and among the first half some that fit nowhere, of the weight that is drawn
/// for them.
fn worlds<W: Strategy<Value = u64>>(heavy: fn(u64, usize) -> W) -> impl Strategy<Value = World> {
    let shape = (4..10_u32, 0..4_u32, 2..40_u64, any::<bool>(), 0..6_usize);
    shape.prop_flat_map(move |(step, tight, weight, is_counted, count)| {
        let initial = usize::try_from(weight).unwrap() << step;
        let all = 40_usize << step;
        let places = subsequence((0..all / 2).collect::<Vec<_>>(), count);
        let costs = prop::collection::vec(heavy(weight, initial), count);
        (places, costs).prop_map(move |(places, costs)| {
            let mut items = vec![(weight, weight); all];
            for (place, cost) in places.into_iter().zip(costs) {
                items.insert(place, (cost, OVERSIZE));
            }
            World { items, initial, memory: initial as u64 >> tight, is_counted }
        })
    })
}

/// The same, and around each item that fits nowhere, and elsewhere, some that cost nothing. One that costs
/// nothing itself comes after something has worked.
fn worlds_with_nothing() -> impl Strategy<Value = World> {
    let nothing = prop::collection::vec((0..600_usize, 1..40_usize), 1..8);
    (worlds(same_weight), nothing, any::<[bool; 6]>()).prop_map(|(mut world, nothing, costs_nothing)| {
        for (item, costs_nothing) in world.oversize().into_iter().zip(costs_nothing).rev() {
            if costs_nothing && item > 0 {
                world.items[item].0 = 0;
            }
            world.items.splice(item + 1..=item, [(0, 0); 5]);
            world.items.splice(item..item, [(0, 0); 3]);
        }
        for (place, count) in nothing {
            world.items.splice(place..place, vec![(0, 0); count]);
        }
        world
    })
}

/// Any weight above the floor, far below and far above what fits.
fn any_weight(_: u64, initial: usize) -> impl Strategy<Value = u64> {
    prop_oneof![2..20_u64, 2..2 * initial as u64]
}

fn same_weight(weight: u64, _: usize) -> impl Strategy<Value = u64> {
    Just(weight)
}

fn policies() -> [Box<dyn Policy>; 3] {
    [Box::new(Halve), Box::new(Bisect::default()), Box::new(Adaptive::default())]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn each_fails_hardly_more_often_than_the_step_can_be_halved(world in worlds(any_weight)) {
        for policy in policies() {
            let (with, without) = (world.run(&*policy), world.without().run(&*policy));
            prop_assert_eq!(&with.left_out, &world.oversize());
            let most = without.failures + with.left_out.len() * (world.halvings() + 1);
            prop_assert!(with.failures <= most, "{:?}: {:?} instead of {:?}", policy, with, without);
        }
    }

    #[test]
    fn they_change_no_size(world in worlds(same_weight)) {
        check_unchanged(&world, world.halvings())?;
    }

    /// Where costs do not tell an item from its neighbors, they are told apart by count.
    #[test]
    fn neighbors_that_cost_nothing_hide_none(world in worlds_with_nothing()) {
        check_unchanged(&world, world.halvings() + 10)?;
    }
}

/// All are left out, what settles is what does without them, and each costs so many failures at most.
fn check_unchanged(world: &World, halvings: usize) -> Result<(), TestCaseError> {
    for policy in policies() {
        let (with, without) = (world.run(&*policy), world.without().run(&*policy));
        prop_assert_eq!(&with.left_out, &world.oversize());
        prop_assert_eq!(with.settled(), without.settled(), "{:?}", policy);
        let failure = with.failure();
        prop_assert!(failure.is_none_or(|size| size as u64 > world.memory), "{:?}: {:?}", policy, failure);
        // On the way to each some smaller pieces succeed, and one after it.
        let most = without.attempts + with.left_out.len() * 2 * (halvings + 1);
        prop_assert!(with.attempts <= most, "{:?}: {:?} instead of {:?}", policy, with, without);
    }
    Ok(())
}

/// Nothing has shown that the item was to blame until another one succeeds.
#[test]
fn memory_that_is_gone_is_not_looked_for_again_at_every_item() {
    let (device, mut attempts) = (FakeDevice::new(1000), 0);
    let with = execute::with::<NoCache>().by_cost(|_| 10).left_out(|_| ());
    let done = with.range(0..400, 1000, |start, end| {
        attempts += 1;
        device.alloc(if end > 200 { OVERSIZE } else { 10 * (end - start) as u64 }).map(drop)
    });
    done.unwrap();
    // Two pieces, the first failures, and each item alone.
    assert!(attempts <= 2 + 10 + 200, "{attempts}");
}
