//! Stages of a call in addition to its plain loop, and everything else that most calls do not need: observers, a
//! deadline, a policy that measures. The functions here show the order in which the stages are called.
//!
//! | stage | before an attempt | after a failure | once its values are dropped |
//! |---|---|---|---|
//! | prediction (`prediction.rs`) | has set the first size | notes the size that failed | may choose a smaller size |
//! | turns (`turns.rs`) | wait for the device | give way to an enclosing call | end, or queue for an exclusive turn |
//! | leaner plans and hooks (`again.rs`) | promise a retry | keep the body's offers | are asked |
//! | ranks (`ballot.rs`) | vote | note their next vote | – |
//!
//! # Why
//!
//! Answers are reported once the failed values are dropped and all stages were asked, so none is taken back.
//!
//! A watched call asks no hooks that the same call would not ask unwatched. So observers and the witness
//! change nothing.
//!
//! A call that opens while a task on a device is polled has stages, even without a device, because loops inside must
//! know that a wait would hold up the executor. Other calls read one byte of the nesting, as for the fallback.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use super::again::Again;
use super::attempt::Attempt;
use super::ballot::Ballot;
use super::hold::Hold;
use super::machine::Failed;
use super::meter::{self, Leaned, Measured};
use super::options::Options;
use super::prediction::Prediction;
use super::rungs::Rungs;
use super::turns::Turns;
use crate::classify::Failure;
use crate::clock;
use crate::device::{Device, Ladder, Rung};
use crate::memory::MemorySource;
use crate::nesting::Nesting;
use crate::observe::witness::Witnessed;
use crate::observe::{Answer, EventKind, Watch};
use crate::policy::Needs;

/// State of a call beyond its plain loop. Calls without it check one `Option`.
pub(super) struct Stages<'a> {
    pub(super) watch: Option<Box<Watch<'a>>>,
    pub(super) turns: Turns<'a>,
    /// True if bodies run once: `TOMA_DISABLE` is set, or this is a dry run.
    pub(super) disabled: bool,
    /// True if the clock is read at each attempt.
    pub(super) times: bool,
    /// True if anything is measured of each attempt.
    pub(super) measures: bool,
    /// Memory source whose bytes are measured in each attempt.
    pub(super) meters: Option<&'a dyn MemorySource>,
    pub(super) again: Option<Box<Again>>,
    /// Prediction that set the first size, if one did.
    pub(super) prediction: Option<Box<Prediction<'a>>>,
    /// Flag that is set once an attempt works on all items.
    pub(super) is_whole: Option<&'a AtomicBool>,
    /// The size of the attempt that failed last.
    pub(super) failed_size: usize,
    /// The step of that attempt.
    pub(super) failed_step: usize,
    /// Votes of the ranks, if there are several.
    pub(super) ballot: Option<Box<Ballot<'a>>>,
}

impl<'a> Stages<'a> {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "built where it stays")]
    pub(super) fn new(
        options: &Options<'a>,
        watch: Option<Box<Watch<'a>>>,
        needs: Needs,
        disabled: bool,
    ) -> Self {
        // A deadline beyond the end of the clock is none.
        let deadline = options.deadline.and_then(|limit| clock::now().checked_add(limit));
        let in_fallback = Nesting::now().marks.falls_back;
        let device = options.device.filter(|_| !disabled && !in_fallback);
        let ladder = if disabled { Ladder::none() } else { options.ladder.unwrap_or_default() };
        Self {
            turns: Turns::new(device.map(Device::of), ladder, deadline),
            disabled,
            times: watch.as_ref().is_some_and(|watch| watch.has_observers())
                || deadline.is_some()
                || needs.time,
            watch,
            measures: needs.anything() && !disabled,
            meters: device.filter(|_| needs.memory),
            again: None,
            prediction: None,
            is_whole: options.is_whole,
            failed_size: 0,
            failed_step: 0,
            ballot: None,
        }
    }

    /// Stages of a call that needs none.
    #[cold]
    pub(super) fn none() -> Self {
        Self { disabled: false, ..Self::new(&Options::default(), None, Needs::NOTHING, true) }
    }

    /// Fills in the fields of an attempt before it begins. `retries`: the attempt may be retried exclusively.
    #[inline]
    pub(super) fn before(&mut self, attempt: &mut Attempt, retries: bool, falls_back: bool) {
        let nesting = attempt.nesting.insert(Nesting::now());
        nesting.marks = nesting.marks.of_loop(falls_back);
        nesting.marks.agrees |= self.ballot.is_some();
        self.turns.nest(&attempt.hold, retries, nesting);
        attempt.begun = self.times.then(clock::now);
        let device = self.turns.device.as_ref();
        attempt.metered = self.meters.and_then(|source| meter::Begun::now(source, device));
    }

    /// Lets the prediction note a failed attempt, before anything takes memory for the answer.
    pub(super) fn measured_failure(
        &mut self,
        attempt: &Attempt,
        failed: &Failed,
        is_to_blame: bool,
        needs: Needs,
    ) {
        if let Some(prediction) = &mut self.prediction {
            let explored = prediction.explores;
            prediction.after_failure(self.failed_size, is_to_blame, attempt, failed);
            if explored {
                self.has_explored(needs);
            }
        }
    }

    /// Lets each other stage note a failed attempt and the answer, while the failed values are still alive.
    pub(super) fn after_failure(
        &mut self,
        attempt: &Attempt,
        (failure, injected): (&Failure, bool),
        failed: &Failed,
        answer: Answer,
    ) {
        self.turns.after_failure(&attempt.hold, answer);
        if let Answer::Again(Rung::Leaner | Rung::Hooks) = answer {
            self.again.get_or_insert_default().asks = Some(*failed);
        }
        if let Some(again) = &mut self.again {
            again.after_failure(answer);
        }
        if let Some(ballot) = &mut self.ballot {
            ballot.after_failure(failure, injected, answer);
        }
    }

    /// Ends the measurement of the small first piece that a prediction learns from, unless the policy needs memory.
    pub(super) fn has_explored(&mut self, needs: Needs) {
        if !needs.memory {
            (self.measures, self.meters) = (needs.anything(), None);
        }
    }

    /// Ends the turn or queues for the next attempt, once the failed values are dropped and undone.
    pub(super) fn release(&mut self, hold: Hold, answer: Answer) {
        if self.is_agreed() {
            self.turns.release(hold, answer);
        } else {
            self.turns.release_before_vote(&hold, answer);
        }
    }

    /// Rungs that are available before the attempt begins.
    pub(super) fn expected_rungs(&self, attempt: &Attempt) -> Rungs {
        self.turns
            .expected_rungs(&attempt.hold)
            .with(Rungs::LEANER, self.again.as_ref().is_some_and(|again| again.expects_offers))
    }

    /// Rungs that are available after the attempt has failed.
    pub(super) fn rungs_after(&self, attempt: &Attempt) -> Rungs {
        self.turns
            .rungs_after(attempt)
            .with(Rungs::LEANER, self.again.as_ref().is_some_and(|again| again.is_offered()))
    }

    /// True if no other rank waits for this one.
    #[inline]
    pub(super) fn is_agreed(&self) -> bool {
        self.ballot.as_ref().is_none_or(|ballot| ballot.is_over())
    }

    /// True if a smaller size cannot help, because the attempt works on all items.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole.is_some_and(|is_whole| is_whole.load(Relaxed))
    }

    /// Switches the call to fallback.
    pub(super) fn fall_back(&mut self) {
        self.turns.fall_back();
        self.meters = None;
    }

    #[inline]
    pub(super) fn notify<'e>(&mut self, kind: impl FnOnce() -> EventKind<'e>) {
        if let Some(watch) = &mut self.watch {
            let _aside = self.turns.aside();
            watch.notify(kind());
        }
    }

    /// Reports a successful attempt.
    #[inline]
    pub(super) fn notify_succeeded<'e>(&mut self, kind: impl FnOnce() -> EventKind<'e>) {
        if let Some(watch) = &mut self.watch {
            let _aside = self.turns.aside();
            watch.succeeded(kind());
        }
    }

    /// Returns the call's attempts as the witness observes them, if one listens.
    #[inline]
    pub(super) fn witnessed(&mut self) -> Option<&mut Witnessed> {
        self.watch.as_mut()?.witnessed.as_mut()
    }

    /// Measures the bytes and time of the attempt. Attempts that run next to each other have no known peak.
    #[inline(never)]
    pub(super) fn measure(
        &self,
        attempt: &mut Attempt,
        elapsed: Option<Duration>,
        is_batch: bool,
    ) -> Measured {
        let of_memory = self.meters.map(|source| meter::end(source, attempt.metered.take()));
        let of_memory = of_memory.unwrap_or_default();
        let peak_bytes = of_memory.peak_bytes.filter(|_| !attempt.hold.is_contended());
        let mut leaned = Leaned { keeps_size: is_batch, ..Leaned::default() };
        if let Some(left) = self.again.as_ref().and_then(|again| again.left.as_ref()) {
            leaned =
                Leaned { repeated: left.repeated, keeps_size: is_batch | left.keeps_size, has_plans: true };
        }
        Measured { elapsed, peak_bytes, leaned, ..of_memory }
    }
}
