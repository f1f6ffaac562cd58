//! One call: the machine, connected to the size cache, the memory source and the observers.

mod failing;
mod leaning;
mod memory;
mod predicting;
mod remembering;
mod succeeding;
pub(super) mod voting;

use std::borrow::Cow;
use std::time::Instant;

use self::memory::CallMemory;
use super::attempt::Attempt;
use super::doubts::Doubts;
use super::evidence;
use super::hold::Hold;
use super::machine::Machine;
use super::meter::{self, Measured};
use super::options::Options;
use super::pieces::Extent;
use super::sizes::Sizes;
use super::stages::Stages;
use super::turns::Turns;
use crate::cache::{Remembered, SizeCache};
use crate::call_site::{Name, Origin};
use crate::clock;
use crate::device::{How, Turn, Waiting};
use crate::nesting::{Inside, Nesting};
use crate::observe::report::{self, ReportBuilder};
use crate::observe::{EventKind, Reason, Shortfall, Watch};
use crate::policy::{Needs, Policy};
use crate::predict::{Asks, DryBody};
use crate::shield::{self, Retryable};
use crate::switches::Switches;

/// One call from its first attempt to its report.
///
/// The settled size is stored in the size cache when the call is dropped, so also when the body fails otherwise,
/// panics, or its future is dropped while it waits.
pub(crate) struct Call<'a> {
    machine: Machine,
    needs: Needs,
    memory: CallMemory<'a>,
    report: ReportBuilder,
    doubts: Doubts,
    /// True once a failure was injected: then nothing is stored in the cache.
    injected: bool,
    /// State that most calls do not need, behind one `Option`, so that each attempt checks once.
    stages: Option<Stages<'a>>,
}

/// Opening.
impl<'a> Call<'a> {
    /// Makes a call that is not [open](Self::open) yet. There are two steps, so that the call is built in its final
    /// place: it is large, and moving it takes a tenth of a call's time.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "see above")]
    pub(crate) fn new(
        cache: &'a dyn SizeCache,
        policy: &impl Policy,
        options: &Options<'a>,
        (name, origin, extent): (Option<Cow<'static, str>>, Origin, Extent),
    ) -> Self {
        let (name, needs) = (Name::of(name, &origin), policy.needs());
        let (user, device) = (options.user, options.device);
        let (items, cost) = (extent.items(), extent.cost());
        let sizes = Sizes::new(&options.sizes, &name);
        // Each field is made here, so that it is built where it stays.
        Self {
            machine: Machine::new(extent, sizes, options.max_attempts, policy.is_fixed()),
            needs,
            memory: CallMemory { cache, origin, device, user, now: None, failed_probes: None },
            report: ReportBuilder::new(name, items, cost),
            doubts: Doubts::default(),
            injected: false,
            stages: None,
        }
    }

    /// Opens the call: chooses its first step from the size cache or a prediction.
    #[inline]
    pub(crate) fn open(&mut self, policy: &dyn Policy, options: &Options<'a>) {
        if !self.opens_plain(policy, options) {
            self.open_with_stages(policy, options, None);
        }
    }

    /// Opens the call if it needs no stages. Returns true if it did.
    #[inline]
    pub(crate) fn opens_plain(&mut self, policy: &dyn Policy, options: &Options<'a>) -> bool {
        shield::prepare();
        report::prepare();
        if self.machine.max_attempts == 0 {
            self.report.name().refuse("max_attempts 0: must be at least 1");
        }
        let switches = Switches::load();
        let needs_stages = options.need_stages();
        let around = self.needs.anything()
            | switches.has(Switches::GIVES_STAGES)
            | Nesting::now().marks.anything()
            | shield::is_dry();
        if needs_stages | around | Watch::is_needed(options.observer, switches) {
            return false;
        }
        self.choose_first(policy, false, None);
        self.report.starts_at(self.machine.first_size());
        true
    }

    /// Chooses the first step by the cache entry of earlier calls. If the policy measures anything (`asks`), returns
    /// the measurement made for this choice.
    #[inline]
    fn choose_first(
        &mut self,
        policy: &dyn Policy,
        asks: bool,
        predict: Option<&mut Asks<'a, '_>>,
    ) -> Option<Measured> {
        let remembered = self.memory.cache.recall(&self.place());
        if let Some(known) = &remembered {
            self.report.remembers(known.settled);
            self.machine.start_from(known.settled, known.bounds);
        }
        let measured = asks.then(|| self.resume(remembered.as_ref()));
        match predict.filter(|_| remembered.is_none()).and_then(|asks| self.predict(asks)) {
            Some(predicted) => self.machine.starts_at(predicted),
            None => self.machine.choose_first(policy, measured),
        }
        // A remembered size is doubted only if the policy does not look for a larger one by itself.
        let stays = !asks && self.machine.probes_from().is_none();
        if let Some(known) = &remembered
            && known.probes
            && stays
            && self.machine.doubt().is_some()
        {
            self.memory.failed_probes = Some(known.failed_probes);
        }
        measured
    }

    #[inline(never)]
    pub(crate) fn open_with_stages(
        &mut self,
        policy: &dyn Policy,
        options: &Options<'a>,
        body: Option<&mut dyn DryBody>,
    ) {
        let switches = Switches::load();
        let offered = switches.has(Switches::OFFERED);
        if offered && self.opens_plain_after_offers(policy, options, switches) {
            return;
        }
        self.add_stages(options, switches);
        let shortfall = self.choose_with_stages(policy, options, switches, body);
        self.report.starts_at(self.machine.first_size());
        if offered {
            self.expect_offers();
        }
        if self.stages.as_ref().is_some_and(|stages| stages.watch.is_some()) {
            self.is_watched(options, switches);
            self.notify_started();
        }
        if let Some(shortfall) = shortfall {
            self.notify_shortfall(shortfall);
        }
    }

    fn add_stages(&mut self, options: &Options<'a>, switches: Switches) {
        // A dry run reports no events, because nothing in it is real.
        let is_dry = shield::is_dry();
        let watch = if is_dry { None } else { Watch::new(self.report.name(), options.observer, switches) };
        if options.predict.is_some() && options.device.is_none() {
            self.report
                .name()
                .refuse("predict without device: name the device whose memory the size must fit");
        }
        let disabled = switches.has(Switches::DISABLE) | is_dry;
        self.stages = Some(Stages::new(options, watch, self.needs, disabled));
        if !is_dry {
            // Before any user code runs, so that a panic in it is reported to the other ranks.
            self.joins(options);
        }
    }

    /// Chooses the first step of a call that has stages. Returns the shortfall of the smallest size, if that does not
    /// fit.
    fn choose_with_stages(
        &mut self,
        policy: &dyn Policy,
        options: &Options<'a>,
        switches: Switches,
        body: Option<&mut dyn DryBody>,
    ) -> Option<Shortfall> {
        if let Some(first) = options.sizes.first {
            self.machine.starts_at(first);
        }
        if self.stages.as_ref().is_some_and(|stages| stages.disabled) {
            self.machine.fixed = true;
            None
        } else if Nesting::now().marks.falls_back {
            self.machine.learn_nothing();
            self.machine.choose_first(policy, None);
            None
        } else if let Some(predict) = options.predict.filter(|_| !switches.has(Switches::UNPREDICTED)) {
            let body = body.map(|body| body as _);
            self.choose_predicted(policy, Asks { predict, body, lacks: None })
        } else {
            let measured = self.choose_first(policy, self.needs.anything(), None)?;
            self.machine.shortfall(&measured)
        }
    }

    /// Chooses the first step by a prediction, if the cache has no entry. Returns the shortfall of the smallest size,
    /// if that does not fit.
    #[inline(never)]
    fn choose_predicted(&mut self, policy: &dyn Policy, mut asks: Asks<'a, '_>) -> Option<Shortfall> {
        let measured = self.choose_first(policy, self.needs.anything(), Some(&mut asks));
        asks.lacks.or_else(|| self.machine.shortfall(&measured?))
    }

    /// Continues with the measurements of earlier calls, and reads the available memory for the first size.
    #[inline(never)]
    fn resume(&mut self, known: Option<&Remembered>) -> Measured {
        let measurements = known.and_then(|known| known.measurements.as_deref());
        let mut measurements = measurements.copied().unwrap_or_default();
        if let Some(known) = known {
            // If the wall clock was set back, no time has passed.
            let passed = clock::wall().duration_since(known.learned).unwrap_or_default();
            evidence::pass(&mut measurements, passed);
        }
        self.machine.measurements = Some(measurements);
        let source = self.memory.device.filter(|_| self.needs.memory);
        source.map(meter::now).unwrap_or_default()
    }

    /// Keeps observers from changing the call: if it has stages only because it is watched, it asks no hooks that are
    /// registered while it runs.
    #[cold]
    fn is_watched(&mut self, options: &Options<'a>, switches: Switches) {
        let around =
            self.needs.anything() | switches.has(Switches::CHANGES_CALLS) | Nesting::now().marks.anything();
        if options.need_stages() | around {
            return;
        }
        if let Some(stages) = &mut self.stages {
            stages.turns = Turns::none();
        }
    }

    fn notify_started(&mut self) {
        let (length, remembered) = (self.report.length(), self.report.remembered());
        let [initial, start] =
            [self.machine.sizes.cap, self.machine.step].map(|step| self.report.within(step));
        self.notify(|| EventKind::Started { initial, start, length, remembered });
        if let Some(from) = self.machine.probes_from().filter(|&from| remembered.is_some() && from < start) {
            self.notify(|| EventKind::Probe { from, to: start });
        }
    }
}

/// Attempts.
impl<'a> Call<'a> {
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.machine.is_done()
    }

    /// Votes until all ranks agree on how to continue, and returns true if work is left. If none is left, no other
    /// rank waits for this one.
    #[inline]
    pub(crate) fn goes_on(&mut self) -> bool {
        if self.agrees() {
            self.settle_votes();
        }
        !self.is_done()
    }

    /// Upper bound of the number of pieces that are left.
    pub(crate) fn most_pieces(&self) -> usize {
        self.machine.most_pieces()
    }

    /// Begins an attempt once it is its turn; blocks the thread until then.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "handing its answer over takes a tenth of a batch")]
    pub(crate) fn begin(&mut self) -> Attempt {
        if self.stages.is_some() {
            let mut attempt = Attempt::none();
            self.begin_blocking(&mut attempt);
            return attempt;
        }
        let (piece, retryable) = self.machine.begins();
        Attempt::of(piece, retryable)
    }

    #[inline(never)]
    fn begin_blocking(&mut self, attempt: &mut Attempt) {
        if let Some((waiting, since)) = self.take_turn(Nesting::now().marks.polled, attempt) {
            attempt.hold = self.waited(waiting.wait(), since);
        }
        self.begin_with(attempt, true);
    }

    /// Begins an attempt as [`begin`](Self::begin) does, without blocking the thread.
    pub(crate) async fn begin_async(&mut self, attempt: &mut Attempt) {
        if self.stages.is_none() {
            *attempt = self.begin();
            attempt.nesting = Some(Nesting::now().of_task());
            return;
        }
        if let Some((waiting, since)) = self.take_turn(Nesting::now().marks.blocked, attempt) {
            attempt.hold = self.waited(waiting.await, since);
        }
        self.begin_with(attempt, false);
        attempt.nesting = attempt.nesting.map(Nesting::of_task);
    }

    /// Takes a turn on the device. If it is not free, returns the wait for it and the time at which that began.
    #[inline]
    fn take_turn(&mut self, polled: bool, attempt: &mut Attempt) -> Option<(Box<Waiting<'a>>, Instant)> {
        let stages = self.stages.as_mut()?;
        let waiting = stages.turns.take(polled, &mut attempt.hold)?;
        let (size, others, since) = (self.machine.coming_size(), waiting.others(), clock::now());
        let _queued = Inside::of(Some(&Nesting::now().of_queued()));
        stages.notify(|| EventKind::Waits { size, others });
        Some((waiting, since))
    }

    #[cold]
    fn waited(&mut self, (turn, how): (Turn, How), since: Instant) -> Hold {
        let (elapsed, exclusive) = (clock::now().saturating_duration_since(since), turn.is_exclusive());
        self.report.waited(elapsed, exclusive);
        let hold = Hold::Turn(turn);
        if let Some(stages) = &mut self.stages {
            stages.turns.waited(how);
            let _aside = hold.aside();
            stages.notify(|| EventKind::Waited { elapsed, exclusive });
        }
        hold
    }

    /// Begins an attempt that has its turn. `at_once`: this thread runs it now, and no executor polls it.
    #[inline]
    fn begin_with(&mut self, attempt: &mut Attempt, at_once: bool) {
        attempt.piece = self.machine.cut();
        let goes_on = self.why_over().is_none();
        let Some(stages) = &mut self.stages else { return };
        let falls_back = self.machine.fallback;
        if !falls_back {
            self.machine.expect(stages.expected_rungs(attempt));
        }
        if stages.times {
            self.report.begin_timing();
        }
        let (start, end) = (attempt.piece.start, attempt.piece.end);
        if stages.watch.is_some() {
            let _aside = attempt.hold.aside();
            stages.notify(|| EventKind::Attempt { start, end });
            let number = self.report.counts().0 + 1;
            if let Some(witnessed) = stages.witnessed() {
                witnessed.begins(number, start..end, self.machine.size(), at_once);
            }
        }
        stages.before(attempt, goes_on && self.machine.can_be_exclusive_yet(), falls_back);
        attempt.retryable = if goes_on { self.machine.retryable() } else { Retryable::NOTHING };
    }

    /// Reason why no retry may start any more, if there is one.
    fn why_over(&self) -> Option<Reason> {
        let stages = self.stages.as_ref()?;
        match () {
            () if stages.disabled => Some(Reason::Disabled),
            () if stages.turns.is_cancelled() => Some(Reason::Cancelled),
            () => stages.turns.is_late().then_some(Reason::Deadline),
        }
    }

    /// True if a loop inside gave way and the failed attempt may be retried because of that.
    pub(super) fn gave_way(&self, attempt: &Attempt) -> bool {
        attempt.hold.is_marked() && self.why_over().is_none() && self.machine.can_be_exclusive_yet()
    }
}
