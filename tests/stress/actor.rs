//! The thread or task that makes a call and all calls inside it.

use std::iter::from_fn;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use toma::classify::Class;
use toma::device::Cancel;
use toma::testing::inject::{self, Injection, Verdict};

use crate::check::is_injected;
use crate::ending::{Ending, text_of};
use crate::fault::{Fault, Token};
use crate::printed;
use crate::watchdog::Action;
use crate::world::{Counts, World, lock};

/// A thread or task that makes a call and all calls inside it.
#[derive(Debug)]
pub(crate) struct Actor {
    pub(crate) world: Arc<World>,
    slot: usize,
    pub(crate) cancel: Cancel,
    /// The actor may block its thread, because no others work on it.
    pub(crate) may_block: bool,
    /// Objects of bodies that are still alive.
    alive: Arc<AtomicUsize>,
    pub(crate) state: Arc<Mutex<State>>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) random: Rng,
    /// The last fault.
    pub(crate) last: Option<(u64, Class)>,
    /// Class of a failure that ends everything: no attempt may follow.
    pub(crate) ends: Option<Class>,
    /// Depth inside the outermost attempt at which a call gave way. The enclosing attempt is redone.
    pub(crate) gave_way: Option<usize>,
    /// An attempt has cancelled its own call: no retry may follow.
    cancelled: bool,
    /// Numbers of faults that were thrown instead of returned.
    thrown: Vec<u64>,
    /// Number of running attempts whose outcome will be discarded.
    doomed: usize,
    dooms_next: bool,
    /// Class of the last injected failure, or `None` before the first.
    pub(crate) injected: Option<Class>,
    injections: Vec<Class>,
}

impl Actor {
    pub(crate) fn new(world: &Arc<World>, slot: usize, seed: u64, may_block: bool) -> Self {
        let cancel = Cancel::new();
        *lock(&world.cancels[slot]) = cancel.clone();
        let state = State {
            random: Rng::with_seed(seed),
            last: None,
            ends: None,
            gave_way: None,
            cancelled: false,
            thrown: Vec::new(),
            doomed: 0,
            dooms_next: false,
            injected: None,
            injections: Vec::new(),
        };
        let (world, alive, state) = (Arc::clone(world), Arc::default(), Arc::new(Mutex::new(state)));
        Self { world, slot, cancel, may_block, alive, state }
    }

    /// Returns true `of_thousand` times out of a thousand.
    pub(crate) fn chance(&self, of_thousand: u32) -> bool {
        lock(&self.state).random.u32(..1000) < of_thousand
    }

    pub(crate) fn token(&self) -> Token {
        Token::new(&self.alive)
    }

    pub(crate) fn does(&self, name: &'static str, depth: usize, items: (usize, usize)) {
        self.world.slots[self.slot].does(Action { name, depth, items });
    }

    pub(crate) fn fault(&self, class: Class) -> Fault {
        let fault = Fault::new(class, self.token());
        Counts::add(&self.world.counts.failures, class);
        let mut state = lock(&self.state);
        state.last = Some((fault.number, class));
        state.ends_by(class);
        fault
    }

    /// Panics with a text, as libraries do.
    pub(crate) fn throw(&self, fault: Fault) -> ! {
        lock(&self.state).thrown.push(fault.number);
        let text = fault.to_string();
        drop(fault);
        panic!("{text}")
    }

    /// Cancels the call from inside, at random.
    pub(crate) fn cancel_perhaps(&self) {
        if self.chance(1) {
            lock(&self.state).cancelled = true;
            self.cancel.cancel();
        }
    }

    pub(crate) fn has_cancelled(&self) -> bool {
        lock(&self.state).cancelled
    }

    /// Returns a failure without a reason, at random.
    pub(crate) fn mishap(&self) -> Option<Fault> {
        let (dice, doomed) = {
            let mut state = lock(&self.state);
            (state.random.u32(..1000), state.doomed > 0)
        };
        let class = match dice {
            0..25 => Class::OutOfMemory,
            25..40 => Class::Transient,
            // An error of an attempt whose outcome is discarded ends nothing.
            40..42 if !doomed => Class::Poisoned,
            42..44 if !doomed => Class::Other,
            _ => return None,
        };
        Some(self.fault(class))
    }

    /// Lets others run while this attempt holds its memory.
    pub(crate) fn linger(&self) {
        let dice = lock(&self.state).random.u64(..200);
        match dice {
            0..4 => thread::sleep(Duration::from_micros(50 * dice)),
            4..60 => thread::yield_now(),
            _ => {}
        }
    }

    /// Makes attempts of this thread fail from outside of their bodies, at random.
    pub(crate) fn inject(&self) -> Option<Injection> {
        let state = Arc::clone(&self.state);
        self.chance(400).then(|| inject::script(from_fn(move || Some(lock(&state).verdict()))))
    }

    pub(crate) fn is_injecting(&self) -> bool {
        lock(&self.state).injected.is_some()
    }

    /// Marks the beginning of an attempt whose outcome may be discarded.
    pub(crate) fn doom(&self) -> Doom<'_> {
        let mut state = lock(&self.state);
        assert!(state.ends.is_none(), "an attempt follows a failure that is no matter of memory");
        let doomed = std::mem::take(&mut state.dooms_next);
        state.doomed += usize::from(doomed);
        Doom { actor: self, doomed }
    }

    /// Ends the actor. Asserts that a fault which went through as a panic was printed, that no other fault was printed,
    /// and that no object is left.
    pub(crate) fn end(self, ending: Ending) {
        let counts = &self.world.counts;
        let count = match &ending {
            Ending::Done(_) => &counts.done,
            Ending::Left => &counts.left,
            Ending::Error(_) => &counts.errors,
            Ending::Panic(_) => &counts.panics,
        };
        count.fetch_add(1, Relaxed);
        for &class in &lock(&self.state).injections {
            Counts::add(&counts.injected, class);
        }
        self.check_printed(&ending);
        drop(ending);
        assert_eq!(self.alive.load(Relaxed), 0, "objects are left over");
        self.does("end", 0, (0, 0));
    }

    fn check_printed(&self, ending: &Ending) {
        let payload = match ending {
            Ending::Panic(payload) => Some(&**payload),
            _ => None,
        };
        let fault = payload.and_then(|payload| Fault::number_in(text_of(payload)?));
        let times = printed::take(fault.as_slice());
        assert_eq!(times, usize::from(fault.is_some()), "{fault:?} goes through: it is to be printed once");
        let injected = payload.is_some_and(|payload| is_injected(payload));
        assert_eq!(printed::take_injected(), usize::from(injected), "injected panics were printed");
        let thrown = &lock(&self.state).thrown;
        assert_eq!(printed::take(thrown), 0, "what was retried is printed: {thrown:?}");
    }
}

impl State {
    /// Records the worst class: a poisoned device wins.
    fn ends_by(&mut self, class: Class) {
        if class == Class::Poisoned || class == Class::Other && self.ends.is_none() {
            self.ends = Some(class);
        }
    }

    /// Draws the verdict on the coming attempt.
    fn verdict(&mut self) -> Verdict {
        let verdicts = [
            (Class::OutOfMemory, Verdict::OUT_OF_MEMORY),
            (Class::Transient, Verdict::TRANSIENT),
            (Class::Poisoned, Verdict::POISONED),
            (Class::Other, Verdict::OTHER),
        ];
        let (class, verdict) = match self.random.u32(..1000) {
            0..100 => verdicts[0],
            100..150 => verdicts[1],
            150..153 => verdicts[2],
            153..156 => verdicts[3],
            _ => return Verdict::PASS,
        };
        self.injected = Some(class);
        self.injections.push(class);
        self.ends_by(class);
        // A failure that ends everything is injected before the body, because a body that has run may already have
        // ended everything itself.
        self.dooms_next = self.ends.is_none() && self.random.bool();
        if self.dooms_next { verdict.after_body() } else { verdict }
    }
}

/// An attempt whose outcome may be discarded, until it is dropped.
#[derive(Debug)]
pub(crate) struct Doom<'a> {
    actor: &'a Actor,
    doomed: bool,
}

impl Drop for Doom<'_> {
    fn drop(&mut self) {
        lock(&self.actor.state).doomed -= usize::from(self.doomed);
    }
}
