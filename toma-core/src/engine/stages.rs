//! Stages of a call beside its plain loop, and everything else that most calls lack: observers, a deadline, a policy
//! that measures. The functions here show the order in which the stages are called.
//!
//! | stage | before an attempt | after a failure | when its values are gone |
//! |---|---|---|---|
//! | prediction (`forecast.rs`) | has set the first size | notes the size that failed | may know a smaller size |
//! | turns (`turns.rs`) | wait for the device | give way to an enclosing call | go back, or queue for an exclusive turn |
//! | leaner plans and hooks (`again.rs`) | promise a retry | keep what the body has offered | are asked |
//! | ranks (`ballot.rs`) | vote | note what to tell the others | – |
//!
//! # Why
//!
//! Answers are told when the values are gone and all stages were asked, so none is taken back.
//!
//! A watched call asks no hooks that the same call would not ask unwatched. So observers and the witness
//! change nothing.
//!
//! A call that opens while a task on a device is polled has stages, even without a device. Loops inside
//! must know that a wait would hold up the executor. Other calls read one byte of the nesting, as they do
//! for the fallback.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use super::again::Again;
use super::attempt::Attempt;
use super::ballot::Ballot;
use super::forecast::Forecast;
use super::hold::Hold;
use super::machine::Failed;
use super::meter::{self, Measured, Told};
use super::options::Options;
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

/// The rest of a call; one look says that there is none.
pub(super) struct Stages<'a> {
    pub(super) watch: Option<Box<Watch<'a>>>,
    pub(super) turns: Turns<'a>,
    /// Bodies run once: `TOMA_DISABLE` is set.
    pub(super) disabled: bool,
    /// The clock is read at each attempt.
    pub(super) times: bool,
    /// What the policy asks for.
    needs: Needs,
    /// Something is measured of each attempt.
    pub(super) measures: bool,
    /// What each attempt takes of this memory is measured.
    pub(super) meters: Option<&'a dyn MemorySource>,
    pub(super) again: Option<Box<Again>>,
    /// What set the first size, where a prediction did.
    pub(super) forecast: Option<Box<Forecast<'a>>>,
    /// Set once an attempt works on all items.
    pub(super) is_whole: Option<&'a AtomicBool>,
    /// The size of the attempt that failed last.
    pub(super) failed_size: usize,
    /// What ranks agree on, where there are several.
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
            needs,
            measures: needs.anything() && !disabled,
            meters: device.filter(|_| needs.memory),
            again: None,
            forecast: None,
            is_whole: options.is_whole,
            failed_size: 0,
            ballot: None,
        }
    }

    /// Those of a call without any.
    #[cold]
    pub(super) fn none() -> Self {
        Self {
            watch: None,
            turns: Turns::none(),
            disabled: false,
            times: false,
            needs: Needs::NOTHING,
            measures: false,
            meters: None,
            again: None,
            forecast: None,
            is_whole: None,
            failed_size: 0,
            ballot: None,
        }
    }

    /// Fills in what an attempt has before it begins; `retries`: it may be retried exclusively.
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

    /// An attempt of this size failed, and its values are still there: each stage notes what it is about to do.
    pub(super) fn after_failure(
        &mut self,
        attempt: &Attempt,
        (failure, failed): (&Failure, &Failed),
        (size, falls_back, injected): (usize, bool, bool),
        answer: Answer,
    ) {
        self.failed_size = size;
        if let Some(forecast) = &mut self.forecast {
            let explored = forecast.explores;
            forecast.after_failure(size, !falls_back, attempt, failed);
            if explored {
                self.has_explored();
            }
        }
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

    /// The first piece was small, so that what it takes is learned: nothing more is measured for that.
    pub(super) fn has_explored(&mut self) {
        if !self.needs.memory {
            (self.measures, self.meters) = (self.needs.anything(), None);
        }
    }

    /// The values are gone and undone: the turn goes back, or queues for the next attempt.
    pub(super) fn release(&mut self, hold: Hold, answer: Answer) {
        if self.is_agreed() {
            self.turns.release(hold, answer);
        } else {
            self.turns.release_before_vote(&hold, answer);
        }
    }

    /// The rungs there are before the attempt begins.
    pub(super) fn expected_rungs(&self, attempt: &Attempt) -> Rungs {
        self.turns
            .expected_rungs(&attempt.hold)
            .with(Rungs::LEANER, self.again.as_ref().is_some_and(|again| again.expects_offers))
    }

    /// The rungs there are once it has failed.
    pub(super) fn rungs_after(&self, attempt: &Attempt) -> Rungs {
        self.turns
            .rungs_after(attempt)
            .with(Rungs::LEANER, self.again.as_ref().is_some_and(|again| again.is_offered()))
    }

    /// Whether no other rank waits for this one.
    #[inline]
    pub(super) fn is_agreed(&self) -> bool {
        self.ballot.as_ref().is_none_or(|ballot| ballot.is_over())
    }

    /// Whether a smaller size cannot help, because the attempt works on all items.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole.is_some_and(|is_whole| is_whole.load(Relaxed))
    }

    /// From here on the call works in fallback.
    pub(super) fn fall_back(&mut self) {
        self.turns.fall_back();
        self.meters = None;
    }

    #[inline]
    pub(super) fn tell<'e>(&mut self, kind: impl FnOnce() -> EventKind<'e>) {
        if let Some(watch) = &mut self.watch {
            let _aside = self.turns.aside();
            watch.tell(kind());
        }
    }

    /// The attempt has succeeded.
    #[inline]
    pub(super) fn tell_succeeded<'e>(&mut self, kind: impl FnOnce() -> EventKind<'e>) {
        if let Some(watch) = &mut self.watch {
            let _aside = self.turns.aside();
            watch.succeeded(kind());
        }
    }

    /// The call's attempts as the witness is told of them, if it is.
    #[inline]
    pub(super) fn witnessed(&mut self) -> Option<&mut Witnessed> {
        self.watch.as_mut()?.witnessed.as_mut()
    }

    /// What the attempt took, for a policy that asks. Of attempts beside each other no peak is known.
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
        let mut told = Told { keeps_size: is_batch, ..Told::default() };
        if let Some(left) = self.again.as_ref().and_then(|again| again.left()) {
            told = Told { repeated: left.repeated, keeps_size: is_batch | left.keeps_size, has_plans: true };
        }
        Measured { elapsed, peak_bytes, told, ..of_memory }
    }
}
