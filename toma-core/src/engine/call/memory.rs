//! The memory that a call is about, and the size cache.

use crate::cache::SizeCache;
use crate::call_site::Origin;
use crate::classify::Class;
use crate::memory::{Host, MemorySource, Reading};

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
