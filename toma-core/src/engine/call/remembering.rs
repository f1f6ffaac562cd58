//! Cache entry and report that a call leaves behind, and its state when an iterator or a stream resumes it.

use std::sync::Arc;

use super::Call;
use super::memory::CallMemory;
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
        let CallMemory { ref origin, device, user, .. } = self.memory;
        let cap = self.report.within(self.machine.sizes.cap);
        Place { origin, name: self.report.name(), user, device, cap }
    }

    /// Resumes a call that is asked for its next value. If the caller is in fallback, the call stays in it to its
    /// end.
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

    /// Stores a size in the size cache, if that stores anything.
    ///
    /// A cache and a memory source are user code, and this may run while a panic unwinds. A panic of theirs must not
    /// take the results of the call with it.
    #[cold]
    fn remember(&mut self, size: usize) {
        let cache = self.memory.cache;
        if !cache.remembers() {
            return self.report.settles(size, cache.name(), None);
        }
        let Some(callers) = contained(|| self.hand_over(size)) else {
            let name = self.report.name();
            text::print(&format!("toma: {name}: {size} is not remembered, because of a panic meanwhile"));
            return;
        };
        self.notify(|| EventKind::Settled { size, callers: &callers });
        self.report.settles(size, cache.name(), Some(callers));
    }

    /// Stores the size, and returns the callers that it is stored for.
    fn hand_over(&self, size: usize) -> Callers {
        // Without a failure, the step has settled with the memory that is free now.
        let now = self.memory.now.or_else(|| self.memory.read());
        let free_bytes = now.map(|now| now.free_bytes);
        let (bounds, measurements) = (self.machine.bounds, self.machine.measurements.map(Arc::new));
        let is_no_larger = self.report.remembered().is_some_and(|remembered| size <= remembered);
        let failed_probes = self.memory.failed_probes.filter(|_| is_no_larger).map_or(0, |failed| failed + 1);
        let learned = Remembered { bounds, free_bytes, measurements, failed_probes, ..Remembered::new(size) };
        self.memory.cache.remember(&self.place(), learned);
        self.memory.cache.callers(&self.place())
    }

    /// Stores the measurements of a call that settled nothing, for the next call.
    fn note(&self) {
        let cache = self.memory.cache;
        let measurements = self.machine.measurements;
        let Some(measurements) = measurements.filter(|_| self.machine.is_done() && cache.remembers()) else {
            return;
        };
        // A cache is user code, and this may run while a panic unwinds. Only measurements are lost then.
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
        self.notify(|| EventKind::Finished { attempts, out_of_memory });
        let ran = if self.report.has_history() { self.machine.take_ran(self.machine.step) } else { 0 };
        self.report.finish(self.machine.position, self.machine.bounds, ran);
    }
}
