//! Where a call goes on from, and what it leaves behind: the size cache, the memory it is about, and the report.

use std::sync::Arc;

use super::Call;
use super::memory::Memory;
use crate::cache::{Callers, Place, Remembered};
use crate::contained::contained;
use crate::engine::stages::Stages;
use crate::nesting::Nesting;
use crate::observe::EventKind;
use crate::reserve;
use crate::text;

impl Call<'_> {
    #[inline]
    pub(super) fn place(&self) -> Place<'_> {
        let Memory { ref origin, device, user, .. } = self.memory;
        let cap = self.report.within(self.machine.sizes.cap);
        Place { origin, name: self.report.name(), user, device, cap }
    }

    /// A call that is asked for its next value: where that is in fallback, it stays there to its end.
    #[inline]
    pub(crate) fn go_on(&mut self) {
        let marks = Nesting::now().marks;
        if marks.anything() {
            self.go_on_inside(marks.falls_back);
        }
    }

    #[cold]
    fn go_on_inside(&mut self, in_fallback: bool) {
        // Loops inside have to know that a wait would hold up the task that polls.
        let stages = self.stages.get_or_insert_with(Stages::none);
        if in_fallback {
            self.machine.learn_nothing();
            stages.fall_back();
        }
    }

    /// Lets the size cache remember a size, when it remembers anything.
    ///
    /// A cache and a memory source are foreign code, and this may run while a panic unwinds: one of theirs must not
    /// take the results of the call with it.
    #[cold]
    fn remember(&mut self, size: usize) {
        let cache = self.memory.cache;
        if !cache.remembers() {
            return self.report.settles(None, cache.name(), Callers::default());
        }
        let Some(callers) = contained(|| self.hand_over(size)) else {
            let name = self.report.name();
            text::print(&format!("toma: {name}: {size} is not remembered, because of a panic meanwhile"));
            return;
        };
        self.tell(|| EventKind::Settled { size, callers: &callers });
        self.report.settles(Some(size), cache.name(), callers);
    }

    /// Returns the callers that the size is remembered for.
    fn hand_over(&self, size: usize) -> Callers {
        // A step that was settled without a failure was settled at what is free now.
        let now = self.memory.now.or_else(|| self.memory.read());
        let free_bytes = now.map(|now| now.free_bytes);
        let (bounds, measurements) = (self.machine.bounds, self.machine.measurements.map(Arc::new));
        let is_no_larger = self.report.remembered().is_some_and(|remembered| size <= remembered);
        let failed_probes = self.memory.failed_probes.filter(|_| is_no_larger).map_or(0, |failed| failed + 1);
        let learned = Remembered { bounds, free_bytes, measurements, failed_probes, ..Remembered::new(size) };
        self.memory.cache.remember(&self.place(), learned);
        self.memory.cache.callers(&self.place())
    }

    /// Hands over what was measured by a call that settled nothing, so that the next one knows of it.
    fn note(&self) {
        let cache = self.memory.cache;
        let measurements = self.machine.measurements;
        let Some(measurements) = measurements.filter(|_| self.machine.is_done() && cache.remembers()) else {
            return;
        };
        // A cache is foreign code, and this may run while a panic unwinds. Only figures are lost.
        contained(|| cache.note(&self.place(), &measurements));
    }
}

impl Drop for Call<'_> {
    #[inline]
    fn drop(&mut self) {
        match self.machine.settled() {
            _ if self.injected => self.report.is_injected(),
            Some(size) => self.remember(size),
            None if self.needs.anything() => self.note(),
            None => {}
        }
        if self.report.has_history() {
            reserve::hold();
        }
        let (attempts, out_of_memory) = self.report.counts();
        self.tell(|| EventKind::Finished { attempts, out_of_memory });
        let ran = if self.report.has_history() { self.machine.take_ran(self.machine.step) } else { 0 };
        self.report.finish(self.machine.position, self.machine.bounds, ran);
    }
}
