//! One call, and the bodies that it runs.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

use tokio::task::yield_now;
use toma::cache::SizeCache;
use toma::classify::Class;
use toma::device::{Ladder, falls_back};
use toma::memory::MemorySource;
use toma::observe::{Answer, Event, EventKind, Observer, Reason};

use crate::actor::{Actor, Doom};
use crate::asynchronous;
use crate::device::{Device, Held};
use crate::ending::Ending;
use crate::fault::{Fault, Token};
use crate::forms;
use crate::log::Log;
use crate::plan::{LONG, Plan};
use crate::printed;
use crate::world::{Caller, lock};

/// Maximum depth of calls inside calls.
const DEEPEST: usize = 2;

/// One call.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) actor: &'a Actor,
    pub(crate) plan: &'a Plan,
    pub(crate) depth: usize,
    pub(crate) log: Mutex<Log>,
}

/// Resources that the body of an attempt holds.
#[derive(Debug)]
struct Open<'a> {
    _doom: Doom<'a>,
    _token: Token,
    held: Vec<Held<'a>>,
}

/// Makes a call.
pub(crate) fn perform(actor: &Actor, depth: usize) -> Ending {
    let plan = Plan::sync(&mut lock(&actor.state).random, actor.may_block);
    let scene = Scene::new(actor, &plan, depth);
    let ending = Ending::of(|| forms::perform(&scene));
    scene.check(&ending);
    scene.check_report(&ending);
    ending
}

/// Makes an asynchronous call.
pub(crate) async fn perform_async(actor: &Actor, depth: usize) -> Ending {
    let plan = Plan::asynchronous(&mut lock(&actor.state).random);
    let scene = Scene::new(actor, &plan, depth);
    let polls = (depth == 0 && actor.chance(50)).then(|| lock(&actor.state).random.usize(..40));
    let ending = asynchronous::caught(asynchronous::perform(&scene), polls).await;
    scene.check(&ending);
    ending
}

impl<'a> Scene<'a> {
    fn new(actor: &'a Actor, plan: &'a Plan, depth: usize) -> Self {
        assert!(depth > 0 || !falls_back(), "a fallback outside of all attempts");
        Self { actor, plan, depth, log: Mutex::new(Log::new(falls_back())) }
    }

    pub(crate) fn ladder(&self) -> Ladder<'_> {
        self.plan.rungs.ladder().cancelled_by(&self.actor.cancel)
    }
}

impl Observer for Scene<'_> {
    fn observe(&self, event: &Event<'_>) {
        let counts = &self.actor.world.counts;
        match event.kind {
            EventKind::Waits { .. } => self.actor.does("wait", self.depth, (0, 0)),
            EventKind::Waited { elapsed, .. } => {
                counts.waits.fetch_add(1, Relaxed);
                if elapsed >= LONG {
                    self.actor.world.complain(&format!("waited {elapsed:?} in vain: {:?}", self.plan));
                }
            }
            EventKind::Answered { answer: Answer::GiveUp(Reason::GaveWay), .. } => {
                lock(&self.actor.state).gave_way = Some(self.depth);
            }
            EventKind::Answered { answer: Answer::FallBack(_), .. } => {
                counts.fallbacks.fetch_add(1, Relaxed);
            }
            _ => {}
        }
    }
}

impl Scene<'_> {
    pub(crate) fn cache(&self) -> &dyn SizeCache {
        self.actor.world.cache(self.plan.cache)
    }

    pub(crate) fn device(&self) -> Option<&dyn MemorySource> {
        let fake = &self.actor.world.devices[self.plan.device?].fake;
        Some(fake)
    }

    /// Returns the device for attributes, which name a device always or never.
    pub(crate) fn attribute_device(&self) -> &dyn MemorySource {
        &self.allocates_from().fake
    }

    fn allocates_from(&self) -> &Device {
        &self.actor.world.devices[self.plan.device.unwrap_or_default()]
    }

    /// Runs the body of forms that work on the user's own range.
    pub(crate) fn at(&self, start: usize, end: usize) -> Result<Range<usize>, Fault> {
        self.act(start - self.plan.offset, end - self.plan.offset)
    }

    /// Runs the body on items that count from 0.
    pub(crate) fn act(&self, start: usize, end: usize) -> Result<Range<usize>, Fault> {
        let mut open = self.open(start..end)?;
        self.actor.linger();
        self.go_on(&mut open, start..end)?;
        if self.nests() {
            perform(self.actor, self.depth + 1).pass_on()?;
        }
        Ok(self.close(open, start..end))
    }

    /// Runs the asynchronous body of forms that work on the user's own range.
    pub(crate) async fn at_async(&self, start: usize, end: usize) -> Result<Range<usize>, Fault> {
        self.act_async(start - self.plan.offset, end - self.plan.offset).await
    }

    /// Runs the asynchronous body, which is pending a random number of times.
    pub(crate) async fn act_async(&self, start: usize, end: usize) -> Result<Range<usize>, Fault> {
        let mut open = self.open(start..end)?;
        self.pause().await;
        self.go_on(&mut open, start..end)?;
        if self.nests() {
            let (actor, deeper) = (self.actor, self.depth + 1);
            let at_once = actor.chance(250);
            let ending =
                if at_once { perform(actor, deeper) } else { Box::pin(perform_async(actor, deeper)).await };
            ending.pass_on()?;
        }
        self.pause().await;
        Ok(self.close(open, start..end))
    }

    async fn pause(&self) {
        while self.actor.chance(400) {
            yield_now().await;
        }
    }

    fn nests(&self) -> bool {
        self.depth < DEEPEST && self.actor.chance(100)
    }

    fn open(&self, items: Range<usize>) -> Result<Open<'_>, Fault> {
        let doom = self.actor.doom();
        self.actor.does("attempt", self.depth, (items.start, items.end));
        self.actor.world.counts.attempts.fetch_add(1, Relaxed);
        if self.depth == 0 {
            lock(&self.actor.state).gave_way = None;
            lock(&self.actor.world.gave_way_in_hooks).remove(&Caller::here());
        }
        lock(&self.log).begins(items.clone(), self.plan, falls_back());
        self.actor.cancel_perhaps();
        let mut open = Open { _doom: doom, _token: self.actor.token(), held: Vec::new() };
        self.hold(&mut open, items)?;
        Ok(open)
    }

    fn go_on<'a>(&'a self, open: &mut Open<'a>, items: Range<usize>) -> Result<(), Fault> {
        if let Some(fault) = self.actor.mishap() {
            if self.actor.chance(500) {
                self.actor.throw(fault);
            }
            return Err(fault);
        }
        self.hold(open, items)
    }

    /// Allocates memory for these items.
    fn hold<'a>(&'a self, open: &mut Open<'a>, items: Range<usize>) -> Result<(), Fault> {
        if falls_back() {
            // In fallback the work uses another memory, which is large.
            return Ok(());
        }
        let bytes = self.plan.bytes_each * self.plan.size(&items) as u64;
        let held = self.allocates_from().alloc(bytes).map_err(|_| self.actor.fault(Class::OutOfMemory))?;
        open.held.push(held);
        Ok(())
    }

    fn close(&self, open: Open<'_>, items: Range<usize>) -> Range<usize> {
        drop(open);
        lock(&self.log).ends_well();
        items
    }

    /// Panics with the failure, for bodies that return nothing.
    pub(crate) fn certain(&self, result: Result<Range<usize>, Fault>) {
        if let Err(fault) = result {
            self.actor.throw(fault);
        }
    }

    /// Runs before a retry.
    pub(crate) fn undo_at(&self, failed: &Range<usize>) {
        let (start, end) = (failed.start - self.plan.offset, failed.end - self.plan.offset);
        let (fault, injected) = {
            let in_hook = lock(&self.actor.world.gave_way_in_hooks).contains(&Caller::here());
            let mut state = lock(&self.actor.state);
            let is_redone = in_hook || state.gave_way.is_some_and(|depth| depth > self.depth);
            // A failed attempt in which a loop gave way is redone whatever its error, except on a poisoned device.
            state.ends = state.ends.filter(|&class| class == Class::Poisoned || !is_redone);
            (state.last.map(|(number, _)| number), state.injected.is_some())
        };
        self.actor.does("retry", self.depth, (start, end));
        assert!(!self.actor.has_cancelled(), "a retry, although the call was cancelled before its failure");
        if let Some(number) = fault {
            assert!(
                !printed::has(number),
                "printed and retried {number}: {:?} {:?}",
                lock(&self.log),
                self.plan
            );
        }
        lock(&self.log).undo(start..end, self.plan, (fault, injected));
    }
}
