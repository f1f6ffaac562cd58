//! Tests that policies use the measured time of recomputation to find the fastest size and plan per item, by trying
//! pieces of the work itself.
#![expect(clippy::cast_precision_loss, reason = "the tests' numbers are small")]

use std::cell::RefCell;
use std::time::Duration;

use toma::leaner;
use toma::policy::{Evidence, Policy};
use toma::testing::{FakeDevice, FakeOutOfMemory, StoppedClock};
use toma::{Adaptive, GlobalCache, Throughput, execute};

use crate::kit::shown::{Shown, Shows};

/// A plan: bytes of an item, and the share of its time that is recomputed.
type Plan = (u64, f64);

/// Work that takes `base` plus a millisecond per item, with the fastest plan that fits.
struct Work {
    device: FakeDevice,
    clock: StoppedClock,
    cache: GlobalCache,
    plans: &'static [Plan],
    base: Duration,
    budget: u64,
    shows: Shows,
    sizes: RefCell<Vec<usize>>,
}

const PLANS: &[Plan] = &[(1000, 0.0), (700, 0.1), (500, 0.2), (250, 0.35), (120, 0.6)];
/// One expensive plan for all sizes.
const DEAR: &[Plan] = &[(1000, 0.0), (100, 1.5)];

impl Work {
    fn new(base: u64, fits: u64, shows: Shows) -> Self {
        let (base, budget) = (Duration::from_millis(base), fits * PLANS[0].0);
        Self {
            device: FakeDevice::new(budget),
            clock: StoppedClock::new(),
            cache: GlobalCache::new(),
            plans: PLANS,
            base,
            budget,
            shows,
            sizes: RefCell::default(),
        }
    }

    /// Returns the time of an attempt and the recomputed part of it, or `None` if no plan fits.
    fn times(&self, size: usize) -> Option<[Duration; 2]> {
        let (_, again) = self.plans.iter().find(|(bytes, _)| bytes * size as u64 <= self.budget)?;
        let plain = Duration::from_millis(size as u64);
        let repeated = plain.mul_f64(*again);
        Some([self.base + plain + repeated, repeated])
    }

    fn attempt(&self, size: usize) -> Result<(), FakeOutOfMemory> {
        self.sizes.borrow_mut().push(size);
        let Some([time, repeated]) = self.times(size) else {
            return self.device.alloc(self.budget + 1).map(drop);
        };
        let plan = self.plans.iter().find(|(bytes, _)| bytes * size as u64 <= self.budget);
        let _memory = self.device.alloc(plan.map_or(0, |(bytes, _)| bytes * size as u64))?;
        self.clock.advance(time);
        if !repeated.is_zero() {
            leaner::repeated(repeated);
        }
        Ok(())
    }

    fn range(&self, items: usize, initial: usize, policy: impl Policy) {
        let source = Shown(self.device.clone(), self.shows);
        let with = execute::with::<GlobalCache>().cache(&self.cache).device(&source).policy(policy);
        with.range(0..items, initial, |start, end| self.attempt(end - start)).unwrap();
    }

    /// Returns the size of the last attempt, leaving out the smaller rest at the end.
    fn last(&self) -> usize {
        let sizes = self.sizes.borrow();
        sizes[sizes.len() - 2]
    }

    fn per_item(&self, size: usize) -> f64 {
        self.times(size).map_or(f64::INFINITY, |[time, _]| time.as_secs_f64() / size as f64)
    }

    /// Returns the least time per item over all sizes and plans.
    fn best(&self, initial: usize) -> f64 {
        let pairs = (1..=initial).flat_map(|size| {
            let fits = self.plans.iter().filter(move |(bytes, _)| bytes * size as u64 <= self.budget);
            fits.map(move |(_, again)| {
                (self.base.as_secs_f64() + size as f64 / 1000.0 * (1.0 + again)) / size as f64
            })
        });
        pairs.fold(f64::INFINITY, f64::min)
    }
}

const SHOWN: [Shows; 3] = [Shows::Nothing, Shows::Free, Shows::Everything];

/// Worlds in which a first size of 512 has to recompute: base times in milliseconds, and number of items that fit
/// without recomputation.
fn worlds() -> impl Iterator<Item = (u64, u64, Shows)> {
    let bases = [0, 5, 43, 60, 100, 2000];
    let fits = [70, 100, 200, 255, 256, 300, 500, 600];
    bases
        .into_iter()
        .flat_map(move |base| fits.into_iter().flat_map(move |fits| SHOWN.map(|shows| (base, fits, shows))))
}

#[test]
fn throughput_ends_near_the_best_pair_of_size_and_plan() {
    let mut worst = (0.0, None);
    let plans = |world| [PLANS, DEAR].map(|plans| (plans, world));
    for (plans, (base, fits, shows)) in worlds().flat_map(plans) {
        let work = Work { plans, ..Work::new(base, fits, shows) };
        work.range(if base == 0 { 20_000 } else { 60_000 }, 512, Throughput::default());
        let times = work.per_item(work.last()) / work.best(512);
        if times > worst.0 {
            worst = (times, Some((base, fits, shows, work.last())));
        }
    }
    assert!(worst.0 <= 1.10, "{worst:?}");
}

#[test]
fn adaptive_does_not_grow_into_repeating() {
    for (base, fits, shows) in worlds() {
        let work = Work::new(base, fits, shows);
        work.range(100_000, 512, Adaptive::default());
        let (last, limit) = (work.last(), usize::try_from(fits).unwrap().min(512));
        let is_near = last <= limit && last as f64 >= limit as f64 * 0.9;
        let is_faster = work.per_item(last) <= work.per_item(limit) * 1.06;
        assert!(is_near || is_faster, "{base} ms, {fits} fit, {shows:?}: {last}");
    }
}

#[test]
fn adaptive_grows_from_below_to_what_needs_no_repeating() {
    for shows in SHOWN {
        let work = Work::new(1, 100, shows);
        work.range(5000, 50, Adaptive::default());
        work.range(400_000, 512, Adaptive::default());
        let repeated = work.sizes.borrow().iter().filter(|&&size| size > 100).count();
        assert!((90..=100).contains(&work.last()), "{shows:?}: {}", work.last());
        assert!(repeated * 50 < work.sizes.borrow().len(), "{shows:?}: {repeated}");
    }
}

#[test]
fn more_memory_lets_pieces_grow_again() {
    for (shows, items) in [(Shows::Free, 200_000), (Shows::Everything, 200_000), (Shows::Nothing, 2_000_000)]
    {
        let mut work = Work::new(1, 100, shows);
        work.range(200_000, 512, Adaptive::default());
        assert!((90..=100).contains(&work.last()), "{shows:?}: {}", work.last());
        work.budget = 400 * PLANS[0].0;
        work.device.set_budget(work.budget);
        work.range(items, 512, Adaptive::default());
        assert!((360..=400).contains(&work.last()), "{shows:?}: {}", work.last());
    }
}

#[test]
fn a_size_worth_repeating_for_grows() {
    for shows in SHOWN {
        let work = Work::new(1, 100, shows);
        let source = Shown(work.device.clone(), shows);
        let with = execute::with::<GlobalCache>().cache(&work.cache).device(&source);
        let body = |start: usize, end: usize| {
            leaner::keep_size();
            work.attempt(end - start)
        };
        with.policy(Adaptive::default()).range(0..400_000, 512, body).unwrap();
        assert_eq!(work.last(), 512, "{shows:?}");
        let batch = |_| {
            let with = execute::with::<GlobalCache>().device(&source).policy(Adaptive::default());
            with.batch(512, |size| work.attempt(size).map(|()| size)).unwrap()
        };
        assert!((0..40).map(batch).all(|size| size == 512), "{shows:?}");
    }
}

#[test]
fn policies_see_the_time_of_repeating() {
    #[derive(Debug)]
    struct Sees;
    thread_local! {
        static SEEN: RefCell<Vec<(usize, Duration)>> = const { RefCell::new(Vec::new()) };
    }
    impl Policy for Sees {
        fn shrink(&self, evidence: &Evidence) -> usize {
            evidence.size / 2
        }
        fn advance(&self, evidence: &Evidence) -> usize {
            SEEN.with_borrow_mut(|seen| seen.push((evidence.size, evidence.repeated)));
            evidence.step
        }
        fn needs(&self) -> toma::policy::Needs {
            toma::policy::Needs::TIME_AND_MEMORY
        }
    }
    execute::with::<GlobalCache>().policy(Sees).range(0..12, 4, |start, _| {
        leaner::repeated(Duration::from_millis(start as u64));
        leaner::repeated(Duration::from_millis(1));
    });
    let seen = SEEN.take();
    let expected = [0, 1, 5].map(|millis| (4, Duration::from_millis(millis)));
    assert_eq!(seen, expected, "before the first attempt, and after all but the last");
}
