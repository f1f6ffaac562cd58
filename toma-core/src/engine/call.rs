//! One call: the machine, connected to the size cache, the memory source and the observers.

mod measuring;
mod opening;
mod sharing;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::sharing::Sharing;
use super::checked_policy::CheckedPolicy;
use super::machine::{Extent, Failed, Machine, Rungs, Took, Verdict};
use super::meter::Meter;
use super::sizes::{SizeOptions, Sizes};
use super::tally::Tally;
use crate::cache::{Callers, Place, Remembered, SizeCache};
use crate::call_site::{Name, Origin};
use crate::classify::{Class, Failure};
use crate::clock;
use crate::contained::contained;
use crate::ladder::Ladder;
use crate::memory::{Host, MemorySource, Reading};
use crate::observe::{EventKind, Observer, Reason, Watch};
use crate::policy::Policy;
use crate::reserve;
use crate::shield::{Panic, Retryable};
use crate::switches::Switches;
use crate::text;

/// The options of a call that need no type of their own.
#[derive(Clone, Debug)]
pub(crate) struct Options<'a> {
    pub(crate) sizes: SizeOptions,
    pub(crate) max_attempts: usize,
    pub(crate) deadline: Option<Duration>,
    pub(crate) user: u64,
    pub(crate) device: Option<&'a dyn MemorySource>,
    pub(crate) observer: Option<&'a dyn Observer>,
    pub(crate) ladder: Option<Ladder<'a>>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            sizes: SizeOptions::default(),
            max_attempts: usize::MAX,
            deadline: None,
            user: 0,
            device: None,
            observer: None,
            ladder: None,
        }
    }
}

/// One call from its first attempt to its report.
///
/// What was learned is remembered when the call is dropped, so also when the body fails otherwise,
/// panics, or the future is dropped while it waits.
pub(crate) struct Call<'a, P: Policy> {
    machine: Machine,
    policy: P,
    memory: Memory<'a>,
    deadline: Option<Instant>,
    watch: Option<Box<Watch<'a>>>,
    tally: Tally,
    meter: Meter,
    sharing: Option<Sharing<'a>>,
    switches: Switches,
    /// Nothing of all that some calls have besides: one look instead of many, at every attempt.
    plain: bool,
    /// A failure was injected: what follows from it is no evidence, and is not remembered.
    pub(crate) is_injected: bool,
}

/// Where sizes are remembered, and what memory they are about.
struct Memory<'a> {
    cache: &'a dyn SizeCache,
    origin: Origin,
    device: Option<&'a dyn MemorySource>,
    user: u64,
    /// The reading at the last failure that was about memory.
    now: Option<Reading>,
    /// Where the call probes beyond the remembered size: how many such probes have failed before.
    probes: Option<u32>,
}

impl<'a, P: Policy> Call<'a, P> {
    /// A call that is not open yet. In two steps, so that it is built where it stays: a call is
    /// large, and moving it would cost as much as opening it.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "handing its parts over takes a tenth of a call")]
    pub(crate) fn closed(
        cache: &'a dyn SizeCache,
        policy: P,
        options: &Options<'a>,
        (name, origin, items): (Option<Cow<'static, str>>, Origin, Option<usize>),
    ) -> Self {
        let (user, device, switches) = (options.user, options.device, Switches::load());
        let name = Name::of(name, &origin);
        Self {
            machine: Machine::new(items, Sizes::new(&options.sizes, &name), options.max_attempts),
            policy,
            memory: Memory { cache, origin, device, user, now: None, probes: None },
            deadline: None,
            watch: Watch::new(&name, options.observer, switches),
            tally: Tally::new(name, items),
            meter: Meter::default(),
            sharing: None,
            switches,
            plain: false,
            is_injected: false,
        }
    }

    /// Counts sizes in costs where there are any; before the call is opened. Here and not where it is
    /// built, because a form knows at compile time whether it has costs.
    #[inline]
    pub(crate) fn weigh(&mut self, extent: Extent) {
        if let Extent::Packed(costs) = extent {
            let whole = self.machine.pack(costs);
            self.tally.weighs(whole);
        }
    }

    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.machine.is_done()
    }

    /// Whether it has nothing that attempts have to wait for.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.plain
    }

    /// At most so many pieces are to come.
    pub(crate) fn most_pieces(&self) -> usize {
        self.machine.most_pieces()
    }

    /// Begins an attempt: the items to work on, and what would be retried.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "handing its answer over takes a tenth of a batch")]
    pub(crate) fn begin(&mut self) -> (Range<usize>, Retryable) {
        if !self.plain {
            return self.begin_watched();
        }
        (self.machine.cut(), self.machine.retryable())
    }

    #[inline(never)]
    fn begin_watched(&mut self) -> (Range<usize>, Retryable) {
        let piece = self.machine.cut();
        self.expect_rungs();
        let retryable = self.retryable();
        if self.times() {
            self.tally.start_clock();
            let Range { start, end } = piece.clone();
            self.tell(|| EventKind::Attempt { start, end });
        }
        if self.meters() {
            self.begin_measuring();
        }
        (piece, retryable)
    }

    fn retryable(&self) -> Retryable {
        let is_over = self.switches.disable() || self.is_late() || self.is_cancelled();
        if is_over { Retryable::NOTHING } else { self.machine.retryable() }
    }

    #[inline]
    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| clock::now() >= deadline)
    }

    /// The attempt succeeded.
    #[inline]
    pub(crate) fn succeeded(&mut self) {
        self.tally.succeeded();
        if !self.plain {
            return self.succeeded_watched();
        }
        self.move_on(Took { elapsed: None, measured: None });
    }

    #[inline(never)]
    fn succeeded_watched(&mut self) {
        let Range { start, end } = self.machine.piece();
        let elapsed = self.tally.elapsed();
        let measured = self.measure(elapsed);
        if let Some(measured) = &measured {
            let available_bytes = self.machine.available_bytes();
            self.tally.measured(self.machine.size(), measured.peak_bytes, available_bytes);
        }
        self.leave_done();
        if self.watch.is_some() {
            let elapsed = elapsed.unwrap_or_default();
            self.tell(|| EventKind::Succeeded { start, end, elapsed });
        }
        self.move_on(Took { elapsed, measured: measured.as_ref() });
    }

    #[inline]
    fn move_on(&mut self, took: Took<'_>) {
        let step = self.machine.step();
        if let Some(to) = self.machine.succeeded(&self.policy, took) {
            self.step_changes(step, to);
        }
    }

    #[cold]
    fn step_changes(&mut self, from: usize, to: usize) {
        self.plain = false;
        let size = self.machine.take_ran(from);
        self.tally.worked(size);
        self.tell(|| EventKind::Probe { from, to });
    }

    /// The attempt failed: says what happens next. The failed values are still there, because
    /// a failure that is not tried again goes through unchanged.
    #[cold]
    pub(crate) fn failed(
        &mut self,
        retryable: Retryable,
        failure: &Failure,
        panic: Option<&Panic>,
    ) -> Verdict {
        self.plain = false;
        let elapsed = self.tally.elapsed();
        let measured = self.measure(elapsed);
        let took = Took { elapsed, measured: measured.as_ref() };
        let (piece, size) = (self.machine.piece(), self.machine.size());
        self.tally_failed(failure.class, elapsed);
        let disabled = self.switches.disable();
        let now = if disabled { None } else { self.memory.read_after(failure.class) };
        // What was printed because nothing was promised must be passed on: a rung that came meanwhile is
        // too late for it.
        let is_late = panic.is_some_and(Panic::was_printed) && !retryable.covers(failure.class);
        let there = if is_late { Rungs::NONE } else { self.rungs_below(panic) };
        let failed = Failed { failure, now, took, there };
        let lacked = self.machine.lacked(&failed);
        let verdict = self.judge(retryable, &failed);
        let free_bytes = now.map(|now| now.free_bytes);
        self.tell(|| EventKind::Failed {
            start: piece.start,
            end: piece.end,
            size,
            class: failure.class,
            requested_bytes: failure.requested_bytes,
            free_bytes,
            message: &failure.message,
            elapsed,
        });
        let foreseen = measured.and_then(|measured| self.machine.shortfall(&measured));
        self.tell_shortfall(lacked.or(foreseen));
        self.take_rung(verdict, &failed);
        self.tell_verdict(size, verdict);
        verdict
    }

    /// What has succeeded since the last entry, and what ended that.
    fn tally_failed(&mut self, class: Class, elapsed: Option<Duration>) {
        let size = self.machine.take_ran(self.machine.step());
        self.tally.worked(size);
        self.tally.failed(self.machine.size(), class, elapsed);
    }

    /// All others are done, and an item that failed alone and of this cost is nobody's: its failure goes
    /// through.
    pub(crate) fn gives_up_alone(&mut self, size: usize) {
        let reason = Reason::FailedAlone;
        self.tally.gives_up(reason);
        self.tell(|| EventKind::GaveUp { size, reason });
    }

    /// What comes of a failure at `size`.
    fn tell_verdict(&mut self, size: usize, verdict: Verdict) {
        self.tally.judged(verdict);
        self.tell(|| match verdict {
            Verdict::Again(rung) => EventKind::Again { size, rung },
            Verdict::Shrink(to) => EventKind::Shrink { from: size, to },
            Verdict::Cut(items) => EventKind::Cut { size, items },
            Verdict::FallBack(size) => EventKind::FallsBack { size },
            Verdict::FallBackAlone { index, cost } => EventKind::FallsBackAlone { index, cost },
            Verdict::GiveUp(reason) => EventKind::GaveUp { size, reason },
            Verdict::SetAside { index, cost } => EventKind::SetAside { index, cost },
        });
    }

    fn judge(&mut self, retryable: Retryable, failed: &Failed<'_>) -> Verdict {
        let memory_matters = is_about_memory(failed.failure.class);
        if memory_matters && self.switches.disable() {
            return Verdict::GiveUp(Reason::Disabled);
        }
        if memory_matters && let Some(reason) = self.is_over(retryable) {
            self.machine.forget();
            return Verdict::GiveUp(reason);
        }
        let asked = CheckedPolicy { policy: &self.policy, by: self.tally.name() };
        self.machine.failed(&asked, failed)
    }

    /// Gives the device's cached memory back; runs after the failed values are gone and undone.
    pub(crate) fn release(&mut self) {
        if let Some(device) = self.memory.device {
            device.release_cached_memory();
        }
        reserve::hold();
        self.leave_failed();
    }

    #[inline]
    fn tell<'e>(&mut self, kind: impl FnOnce() -> EventKind<'e>) {
        if self.watch.is_some() {
            self.tell_now(kind());
        }
    }

    #[cold]
    fn tell_now(&mut self, kind: EventKind<'_>) {
        if let Some(watch) = &mut self.watch {
            watch.tell(kind);
        }
    }
}

impl Memory<'_> {
    /// Reads the memory where the class of a failure makes it matter.
    fn read_after(&mut self, class: Class) -> Option<Reading> {
        if !is_about_memory(class) {
            return None;
        }
        self.now = self.read();
        self.now
    }

    fn read(&self) -> Option<Reading> {
        self.source().read().ok()
    }

    fn source(&self) -> &dyn MemorySource {
        self.device.unwrap_or(Host::shared())
    }
}

fn is_about_memory(class: Class) -> bool {
    matches!(class, Class::OutOfMemory | Class::Transient)
}

impl<P: Policy> Call<'_, P> {
    #[inline]
    fn place(&self) -> Place<'_> {
        let Memory { ref origin, device, user, .. } = self.memory;
        let cap = self.tally.within(self.machine.cap());
        Place { origin, name: self.tally.name(), user, device, cap }
    }

    /// Lets the size cache remember a size, when it remembers anything.
    ///
    /// A cache and a memory are anybody's code, and this may run while a panic unwinds: one of theirs
    /// must not take the results of the call with it.
    #[cold]
    fn remember(&mut self, size: usize) {
        let cache = self.memory.cache;
        if !cache.remembers() {
            return self.tally.settles(None, cache.name(), Callers::default());
        }
        let Some(callers) = contained(|| self.hand_over(size)) else {
            let name = self.tally.name();
            text::print(&format!("toma: {name}: {size} is not remembered, because of a panic meanwhile"));
            return;
        };
        self.tell(|| EventKind::Settled { size, callers: &callers });
        self.tally.settles(Some(size), cache.name(), callers);
    }

    /// Returns the callers that it is remembered for.
    fn hand_over(&self, size: usize) -> Callers {
        let cache = self.memory.cache;
        // A step that was settled without a failure was settled at what is free now.
        let now = self.memory.now.or_else(|| self.memory.read());
        let free_bytes = now.map(|now| now.free_bytes);
        let (bounds, measurements) = (self.machine.bounds(), self.machine.measurements().map(Arc::new));
        let is_no_larger = self.tally.remembered().is_some_and(|remembered| size <= remembered);
        let failed_probes = self.memory.probes.filter(|_| is_no_larger).map_or(0, |failed| failed + 1);
        let learned = Remembered { bounds, free_bytes, measurements, failed_probes, ..Remembered::new(size) };
        cache.remember(&self.place(), learned);
        cache.callers(&self.place())
    }
}

impl<P: Policy> Drop for Call<'_, P> {
    #[inline]
    fn drop(&mut self) {
        match self.machine.settled() {
            _ if self.is_injected => {}
            Some(size) => self.remember(size),
            None if self.policy.needs().anything() => self.note(),
            None => {}
        }
        if self.tally.has_history() {
            reserve::hold();
        }
        if let Some(watch) = &mut self.watch {
            let (attempts, out_of_memory) = self.tally.counts();
            watch.tell(EventKind::Finished { attempts, out_of_memory });
        }
        self.tally.finish(&mut self.machine);
    }
}
