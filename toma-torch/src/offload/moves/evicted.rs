//! Stand-in for the memory of a storage while it is evicted.

use std::borrow::Cow;
use std::ffi::CString;
use std::sync::Arc;

use super::counts::EvictedTally;
use super::host::HostBlock;
use super::weights_file::{Part, part};
use crate::error::{EVICTED, Error};
use crate::ffi::{Rows, StandIn};
use crate::memory::Device;

/// Makes the stand-in for `bytes` evicted bytes in `source`, which counts in `evicted` until it is dropped.
pub(crate) fn stand_in(bytes: u64, source: Arc<Source>, evicted: &Arc<EvictedTally>) -> StandIn {
    evicted.add(bytes);
    let booked = Booked { bytes, evicted: Arc::clone(evicted) };
    StandIn { bytes, location: Box::new(Evicted { source, _booked: booked }) }
}

/// Returns the source of the bytes of an evicted storage.
pub(crate) fn source_of(stand_in: &StandIn) -> &Arc<Source> {
    let evicted = stand_in.location.downcast_ref::<Evicted>().expect("only our managers evict storages");
    &evicted.source
}

/// Takes the source out of the stand-in of a storage that has been fetched.
pub(crate) fn into_source(stand_in: StandIn) -> Arc<Source> {
    let evicted = stand_in.location.downcast::<Evicted>().expect("only our managers evict storages");
    evicted.source
}

/// Message of the error when an evicted storage is accessed.
pub(crate) fn evicted_message(words: &str, device: &Device) -> CString {
    let words = format!(
        "offload: {words} {EVICTED}{}: if it is parked, resume it first; otherwise enter its manager, fetch it first, or pin \
         it if it is read by its address",
        toma_core::memory::MemorySource::name(device)
    );
    CString::new(words.replace('\0', " ")).expect("it has no zeros")
}

/// Message of the error when a parked storage is accessed.
pub(crate) fn parked_message(words: &str, device: &Device) -> String {
    let name = toma_core::memory::MemorySource::name(device);
    format!("offload: {words} {EVICTED}{name}, where it was parked: resume it first")
}

/// Counts in `EvictedTally` until it is dropped.
struct Evicted {
    source: Arc<Source>,
    _booked: Booked,
}

#[derive(Debug)]
struct Booked {
    bytes: u64,
    evicted: Arc<EvictedTally>,
}

impl Drop for Booked {
    fn drop(&mut self) {
        self.evicted.remove(self.bytes);
    }
}

/// Bytes of an evicted storage. Shared, so that operators can gather rows while another thread fetches the storage.
#[derive(Debug)]
pub(crate) enum Source {
    Host(HostBlock),
    /// Read from the file at each use.
    File(Part),
}

/// Size in bytes of libtorch's largest element type.
const LARGEST_ELEMENT: usize = 16;

impl Source {
    pub(crate) fn bytes(&self) -> Result<Cow<'_, [u8]>, Error> {
        match self {
            Self::Host(block) => Ok(Cow::Borrowed(block.bytes())),
            Self::File(part) => part.bytes().map(Cow::Owned),
        }
    }
}

impl Rows for Source {
    fn memory(&self) -> Option<&[u8]> {
        match self {
            // Kernels read whole elements, whose address must be a multiple of their size.
            Self::Host(block) if block.bytes().as_ptr().addr().is_multiple_of(LARGEST_ELEMENT) => {
                Some(block.bytes())
            }
            Self::Host(_) | Self::File(_) => None,
        }
    }

    fn read(&self, offsets: &[u64], bytes: u64, to: &mut [u8]) -> Result<(), Error> {
        match self {
            Self::Host(block) => {
                for &offset in offsets {
                    let at = part(offset, bytes);
                    to[at.clone()].copy_from_slice(&block.bytes()[at]);
                }
                Ok(())
            }
            Self::File(file) => file.read(offsets, bytes, to),
        }
    }
}
