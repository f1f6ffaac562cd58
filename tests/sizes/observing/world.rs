//! A body that fails by a script, run by each form, with records of everything observable.

use std::cell::RefCell;
use std::thread::sleep;
use std::time::Duration;

use toma::classify::{Class, Failure};
use toma::policy::Evidence;
use toma::policy::Policy;
use toma::{GlobalCache, Halve, NoCache, execute};

use crate::executor::{block_on, pause};
use crate::kit::Memory;
use crate::observing::record::Record;

/// Runs the body over this many items.
pub(crate) type Form = fn(&World, usize) -> Result<(), Trouble>;

/// The forms whose events must be the same.
pub(crate) const FORMS: [(&str, Form); 3] =
    [("inline", inline), ("attribute", attribute), ("async", asynchronous)];

pub(crate) const INITIAL: usize = 8;

/// Scripted result of one attempt.
pub(crate) type Fate = Result<(), Trouble>;

pub(crate) const FINE: Fate = Ok(());
pub(crate) const OUT_OF_MEMORY: Fate = Err(Trouble { class: Class::OutOfMemory, requested: Some(4096) });
/// Requests more bytes than are free.
pub(crate) const TRANSIENT_LARGE: Fate = Err(Trouble { class: Class::Transient, requested: Some(4096) });
/// Requests fewer bytes than are free.
pub(crate) const TRANSIENT_SMALL: Fate = Err(Trouble { class: Class::Transient, requested: Some(16) });
pub(crate) const POISONED: Fate = Err(Trouble { class: Class::Poisoned, requested: None });
pub(crate) const OTHER: Fate = Err(Trouble { class: Class::Other, requested: None });

/// An error that only the call's own `classify` can interpret.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trouble {
    class: Class,
    requested: Option<u64>,
}

impl Trouble {
    fn classify(&self) -> Failure {
        Failure::new(self.class, "the script says so").requesting(self.requested)
    }
}

/// Options of a call, and records of it.
pub(crate) struct World {
    pub(crate) record: Record,
    pub(crate) cache: GlobalCache,
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) min: usize,
    /// Minimum duration of each attempt.
    pub(crate) pause: Duration,
    memory: Memory,
    script: RefCell<Vec<Fate>>,
}

impl World {
    /// Returns a world whose attempts end as scripted, in turn. All later attempts succeed.
    pub(crate) fn new(script: impl IntoIterator<Item = Fate>) -> Self {
        let world = Self {
            record: Record::default(),
            cache: GlobalCache::new(),
            policy: Box::new(Halve),
            min: 1,
            pause: Duration::ZERO,
            memory: Memory::new(512, 1024),
            script: RefCell::default(),
        };
        world.follow(script);
        world
    }

    pub(crate) fn follow(&self, script: impl IntoIterator<Item = Fate>) {
        let mut script = Vec::from_iter(script);
        script.reverse();
        self.script.replace(script);
    }

    pub(crate) fn attempt(&self, start: usize, end: usize) -> Fate {
        assert!(start < end, "{start}..{end}: an attempt at nothing");
        sleep(self.pause);
        self.script.borrow_mut().pop().unwrap_or(FINE)
    }

    /// Runs one batch.
    pub(crate) fn batch(&self) -> Result<usize, Trouble> {
        let with = execute::with::<NoCache>().cache(&self.cache).policy(&*self.policy).min(self.min);
        let with = with.observer(&self.record).device(&self.memory).name("work").classify(Trouble::classify);
        with.batch(INITIAL, |size| self.attempt(0, size).map(|()| size))
    }
}

pub(crate) fn inline(world: &World, items: usize) -> Result<(), Trouble> {
    execute::with::<NoCache>()
        .cache(&world.cache)
        .policy(&*world.policy)
        .min(world.min)
        .observer(&world.record)
        .device(&world.memory)
        .name("work")
        .classify(Trouble::classify)
        .range(0..items, INITIAL, |start, end| world.attempt(start, end))
}

fn attribute(world: &World, items: usize) -> Result<(), Trouble> {
    attributed(0, items, world)
}

#[toma::range(
    initial = INITIAL, cache = &world.cache, policy = &*world.policy, min = world.min, name = "work",
    observer = world.record, device = world.memory, classify = Trouble::classify,
)]
fn attributed(start: usize, end: usize, world: &World) -> Result<(), Trouble> {
    world.attempt(start, end)
}

fn asynchronous(world: &World, items: usize) -> Result<(), Trouble> {
    block_on(awaited(0, items, world))
}

#[toma::range(
    initial = INITIAL, cache = &world.cache, policy = &*world.policy, min = world.min, name = "work",
    observer = world.record, device = world.memory, classify = Trouble::classify,
)]
pub(crate) async fn awaited(start: usize, end: usize, world: &World) -> Result<(), Trouble> {
    pause().await;
    world.attempt(start, end)
}

/// A policy that grows from one item to the maximum, and begins again.
#[derive(Debug)]
pub(crate) struct Restless {
    pub(crate) most: usize,
}

impl Policy for Restless {
    fn shrink(&self, evidence: &Evidence) -> usize {
        evidence.size - 1
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        evidence.step % self.most + 1
    }
}
