//! Measuring for policies that ask for it; the others never come past the first line of these.

use std::time::Duration;

use super::Call;
use super::sharing::Sharing;
use crate::cache::Remembered;
use crate::clock;
use crate::contained::contained;
use crate::engine::meter::{self, Measured};
use crate::engine::recording;
use crate::observe::{EventKind, Shortfall};
use crate::policy::Policy;
use crate::share::Seat;

impl<P: Policy> Call<'_, P> {
    /// Early, so that nobody waits for what cannot be.
    #[cold]
    pub(super) fn tell_shortfall(&mut self, shortfall: Option<Shortfall>) {
        let Some(shortfall) = shortfall else { return };
        let Shortfall { size, needs_bytes, free_bytes } = shortfall;
        if self.tally.falls_short(shortfall) {
            self.tell(|| EventKind::DoesNotFit { size, needs_bytes, free_bytes });
        }
    }

    /// Goes on with the record of earlier calls, and measures what a first size may depend on.
    pub(super) fn resume(&mut self, known: Option<&Remembered>) -> Measured {
        let mut measurements =
            known.and_then(|known| known.measurements.as_deref()).copied().unwrap_or_default();
        if let Some(known) = known {
            // A clock that was set back says nothing.
            let passed = clock::wall().duration_since(known.learned).unwrap_or_default();
            recording::pass(&mut measurements, passed);
        }
        self.machine.keep(measurements);
        let measured = self.memory.device.filter(|_| self.policy.needs().memory);
        measured.map(meter::now).unwrap_or_default()
    }

    /// Hands over what was measured by a call that settled nothing, so that the next one knows of it.
    pub(super) fn note(&self) {
        let cache = self.memory.cache;
        let measurements =
            self.machine.measurements().filter(|_| self.machine.is_done() && cache.remembers());
        let Some(measurements) = measurements else { return };
        // A cache is anybody's code, and this may run while a panic unwinds. Only figures are lost.
        contained(|| cache.note(&self.place(), &measurements));
    }

    #[inline]
    pub(super) fn times(&self) -> bool {
        let asked = self.watch.is_some() || self.deadline.is_some() || self.tally.has_history();
        asked || self.policy.needs().time
    }

    /// Whether memory is measured. Not where no device was given: nothing says then which memory it is
    /// that runs out, and a policy that took the host's for it would trust in what never changes.
    #[inline]
    pub(super) fn meters(&self) -> bool {
        let is_known = self.memory.device.is_some();
        is_known && self.policy.needs().memory && !self.switches.disable() && !self.machine.is_elsewhere()
    }

    /// Where nobody shares the memory there is nobody to disturb.
    pub(super) fn begin_measuring(&mut self) {
        let seat = self.sharing.as_ref().and_then(Sharing::seat);
        self.meter.begin(self.memory.source(), || seat.is_none_or(Seat::measure));
    }

    fn end_measuring(&mut self) -> Measured {
        let measured = self.meter.end(self.memory.source());
        if let Some(seat) = self.sharing.as_ref().and_then(Sharing::seat) {
            seat.measured();
        }
        measured
    }

    /// What the attempt that has just ended took, for a policy that asks.
    #[inline]
    pub(super) fn measure(&mut self, elapsed: Option<Duration>) -> Option<Measured> {
        let asked = self.policy.needs().anything() && !self.switches.disable();
        asked.then(|| {
            let of_memory = self.meters().then(|| self.end_measuring());
            let mut measured = Measured { elapsed, ..of_memory.unwrap_or_default() };
            if self.is_among_others() {
                measured.peak_bytes = None;
            }
            measured
        })
    }
}
