//! How a call begins: what it has besides, and where it starts.

use super::sharing::Sharing;
use super::{Call, Options};
use crate::cache::Remembered;
use crate::clock;
use crate::engine::machine::Known;
use crate::engine::meter::Measured;
use crate::engine::tally;
use crate::nesting::Surroundings;
use crate::observe::EventKind;
use crate::policy::Policy;
use crate::shield;

impl<'a, P: Policy> Call<'a, P> {
    /// Asks the size cache where to start.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "handing its parts over takes a tenth of a call")]
    pub(crate) fn open(&mut self, options: &Options<'a>) {
        shield::prepare();
        tally::prepare();
        if options.max_attempts == 0 {
            self.tally.name().refuse("max_attempts 0: must be at least 1");
        }
        self.plain = !self.has_more(options);
        if !self.plain {
            self.prepare(options);
        }
        let measured = if self.plain || !self.switches.disable() { self.recall() } else { None };
        self.tally.starts_at(self.machine.step());
        if !self.plain {
            self.tell_opening(measured);
        }
    }

    /// Whether the call has anything that most calls have not. Without a jump for each.
    #[inline]
    fn has_more(&self, options: &Options<'a>) -> bool {
        let Options { deadline, device, ladder, .. } = options;
        let options = deadline.is_some() | device.is_some() | ladder.is_some();
        let surroundings = self.switches.anything() | Surroundings::now().marks.anything();
        options | surroundings | self.watch.is_some() | self.policy.needs().anything()
    }

    #[inline(never)]
    fn prepare(&mut self, options: &Options<'a>) {
        // A deadline beyond the end of the clock is none.
        self.deadline = options.deadline.and_then(|limit| clock::now().checked_add(limit));
        if self.switches.disable() {
            return self.machine.freeze();
        }
        let has_fallen_back = Surroundings::now().marks.falls_back();
        if has_fallen_back {
            self.machine.learn_nothing();
        }
        if options.device.is_some() || options.ladder.is_some() || self.switches.hooked() {
            self.sharing = Some(Sharing::of(options, has_fallen_back));
        }
    }

    /// Returns what was measured for the first size, where the policy asks.
    #[inline]
    fn recall(&mut self) -> Option<Measured> {
        let learns = self.plain || !self.machine.has_fallen_back();
        let remembered = if learns { self.memory.cache.recall(&self.place()) } else { None };
        let known = remembered.as_ref().map(|&Remembered { settled, bounds, probes, .. }| Known {
            settled,
            bounds,
            probes,
        });
        self.memory.probes =
            remembered.as_ref().filter(|known| known.probes).map(|known| known.failed_probes);
        self.tally.remembers(known.map(|known| known.settled));
        if self.policy.needs().anything() && learns {
            let measured = self.resume(remembered.as_ref());
            self.machine.start_from(known, &self.policy, Some(&measured));
            return Some(measured);
        }
        self.machine.start_from(known, &self.policy, None);
        None
    }

    #[inline(never)]
    fn tell_opening(&mut self, measured: Option<Measured>) {
        if self.watch.is_some() {
            self.tell_started();
        }
        if let Some(measured) = measured {
            self.tell_shortfall(self.machine.shortfall(&measured));
        }
    }

    #[cold]
    fn tell_started(&mut self) {
        let (length, remembered) = (self.tally.length(), self.tally.remembered());
        let (initial, start) =
            (self.tally.within(self.machine.cap()), self.tally.within(self.machine.step()));
        self.tell(|| EventKind::Started { initial, start, length, remembered });
        if let Some(from) = self.machine.probes_from().filter(|&from| remembered.is_some() && from < start) {
            self.tell(|| EventKind::Probe { from, to: start });
        }
    }
}
