//! Memory source and size cache of a call.

use crate::cache::SizeCache;
use crate::call_site::Origin;
use crate::classify::Class;
use crate::memory::{Host, MemorySource, Reading};

/// The size cache of a call, and the memory that its sizes depend on.
pub(super) struct CallMemory<'a> {
    pub(super) cache: &'a dyn SizeCache,
    pub(super) origin: Origin,
    pub(super) device: Option<&'a dyn MemorySource>,
    pub(super) user: u64,
    /// The reading at the last failure that was about memory.
    pub(super) now: Option<Reading>,
    /// Number of failed doubts about the remembered size before this call, if the call doubts it.
    pub(super) failed_probes: Option<u32>,
}

impl CallMemory<'_> {
    /// Reads the memory if failures of this class concern memory.
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
