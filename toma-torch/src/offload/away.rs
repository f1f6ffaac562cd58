//! What stands for memory while it is away.

use std::borrow::Cow;
use std::ffi::CString;
use std::sync::Arc;

use super::host::Block;
use super::places::Places;
use super::weights_file::{Part, part};
use crate::error::{AWAY, Error};
use crate::ffi::{Away, Rows};
use crate::memory::Device;

/// What stands for so many bytes that are at their source, until it ends or comes back.
pub(crate) fn away(bytes: u64, source: Arc<Source>, places: &Arc<Places>) -> Away {
    places.is_away(bytes);
    let booked = Booked { bytes, places: Arc::clone(places) };
    Away { bytes, place: Box::new(Outside { source, _booked: booked }) }
}

/// Where the bytes are.
pub(crate) fn source_of(away: &Away) -> &Arc<Source> {
    let outside = away.place.downcast_ref::<Outside>().expect("storages are away by us alone");
    &outside.source
}

/// The same of one that is back.
pub(crate) fn into_source(away: Away) -> Arc<Source> {
    let outside = away.place.downcast::<Outside>().expect("storages are away by us alone");
    outside.source
}

/// The error of an access to a storage while it is away.
pub(crate) fn away_words(words: &str, device: &Device) -> CString {
    let words = format!(
        "offload: {words} {AWAY}{}: enter its manager, and pin what is read by its address, or fetch it first",
        toma_core::memory::MemorySource::name(device)
    );
    CString::new(words.replace('\0', " ")).expect("it has no zeros")
}

/// The same while it is parked.
pub(crate) fn parked_words(words: &str, device: &Device) -> String {
    let name = toma_core::memory::MemorySource::name(device);
    format!("offload: {words} {AWAY}{name}, where it was parked: resume it first")
}

/// It is in the books until it is dropped.
struct Outside {
    source: Arc<Source>,
    _booked: Booked,
}

#[derive(Debug)]
struct Booked {
    bytes: u64,
    places: Arc<Places>,
}

impl Drop for Booked {
    fn drop(&mut self) {
        self.places.is_back(self.bytes);
    }
}

/// Bytes outside of a device. Shared, so that operators take rows of them while another thread brings them back.
#[derive(Debug)]
pub(crate) enum Source {
    Host(Block),
    /// They are read when they are asked for.
    File(Part),
}

/// Of kinds that libtorch has.
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
            // Kernels read elements, which are where their size divides the address.
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
