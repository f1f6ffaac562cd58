//! What most calls lack: a deadline, observers, a policy that measures, a device.
//!
//! # Why
//!
//! A watched call asks no hooks that the same call would not ask unwatched. So observers and the witness
//! change nothing.
//!
//! A call that opens while a task on a device is polled has extras, even without a device. Loops inside
//! must know that a wait would hold up the executor. Other calls read one byte of the nesting, as they do
//! for the fallback.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use super::again::Again;
use super::agreeing::Agreeing;
use super::attempt::Attempt;
use super::forecast::Forecast;
use super::meter::{self, Measured, Told};
use super::options::Options;
use super::rungs::Rungs;
use super::turns::Turns;
use crate::clock;
use crate::device::{Device, Ladder};
use crate::memory::MemorySource;
use crate::nesting::Nesting;
use crate::observe::witness::Witnessed;
use crate::observe::{EventKind, Watch};
use crate::policy::Needs;

/// The rest of a call; one look says that there is none.
pub(super) struct Extras<'a> {
    pub(super) watch: Option<Box<Watch<'a>>>,
    pub(super) turns: Turns<'a>,
    /// Bodies run once: `TOMA_DISABLE` is set.
    pub(super) disabled: bool,
    /// The clock is read at each attempt.
    pub(super) times: bool,
    /// Something is measured of each attempt.
    pub(super) measures: bool,
    /// What each attempt takes of this memory is measured.
    pub(super) meters: Option<&'a dyn MemorySource>,
    pub(super) again: Option<Box<Again>>,
    /// What set the first size, where a prediction did.
    pub(super) forecast: Option<Box<Forecast<'a>>>,
    /// Set once an attempt works on all items.
    pub(super) is_whole: Option<&'a AtomicBool>,
    /// What ranks agree on, where there are several.
    pub(super) agreeing: Option<Box<Agreeing<'a>>>,
}

impl<'a> Extras<'a> {
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
            forecast: None,
            is_whole: options.is_whole,
            agreeing: None,
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
            measures: false,
            meters: None,
            again: None,
            forecast: None,
            is_whole: None,
            agreeing: None,
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
        self.agreeing.as_ref().is_none_or(|agreeing| agreeing.is_over())
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

    /// Fills in what an attempt of a call with extras has; `retries`: it may be retried exclusively.
    #[inline]
    pub(super) fn begin(&mut self, attempt: &mut Attempt, retries: bool, falls_back: bool) {
        let nesting = attempt.nesting.insert(Nesting::now());
        nesting.marks = nesting.marks.of_loop(falls_back);
        nesting.marks.agrees |= self.agreeing.is_some();
        self.turns.nest(&attempt.hold, retries, nesting);
        attempt.begun = self.times.then(clock::now);
        let device = self.turns.device.as_ref();
        attempt.metered = self.meters.and_then(|source| meter::Begun::now(source, device));
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
