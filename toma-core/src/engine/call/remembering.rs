//! Where a call goes on from, and what it leaves behind: the size cache, the memory it is about, and the report.

use std::sync::Arc;

use super::Call;
use crate::cache::{Callers, Place, Remembered, SizeCache};
use crate::call_site::Origin;
use crate::classify::Class;
use crate::contained::contained;
use crate::engine::extras::Extras;
use crate::memory::{Host, MemorySource, Reading};
use crate::nesting::Nesting;
use crate::observe::EventKind;
use crate::reserve;
use crate::text;

/// Where sizes are remembered, and what memory they are about.
pub(super) struct Memory<'a> {
    pub(super) cache: &'a dyn SizeCache,
    pub(super) origin: Origin,
    pub(super) device: Option<&'a dyn MemorySource>,
    pub(super) user: u64,
    /// The reading at the last failure that was about memory.
    pub(super) now: Option<Reading>,
    /// Where the call doubts the remembered size: how many such doubts have failed before.
    pub(super) failed_probes: Option<u32>,
}

impl Memory<'_> {
    /// Reads the memory where the class of a failure makes it matter.
    pub(super) fn read_after(&mut self, class: Class) -> Option<Reading> {
        if !is_about_memory(class) {
            return None;
        }
        self.now = self.read();
        self.now
    }

    pub(super) fn read(&self) -> Option<Reading> {
        self.source().read().ok()
    }

    pub(super) fn source(&self) -> &dyn MemorySource {
        self.device.unwrap_or(Host::shared())
    }
}

pub(super) fn is_about_memory(class: Class) -> bool {
    matches!(class, Class::OutOfMemory | Class::Transient)
}

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
        let extras = self.extras.get_or_insert_with(Extras::none);
        if in_fallback {
            self.machine.learn_nothing();
            extras.fall_back();
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
