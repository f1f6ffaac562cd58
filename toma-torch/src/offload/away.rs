//! What stands for memory while it is away.

use std::borrow::Cow;
use std::sync::Arc;

use super::host::Block;
use super::table::Places;
use super::weights_file::Part;
use crate::error::Error;
use crate::ffi::Away;

/// What stands for so many bytes that are at their source, until it ends or comes back.
pub(crate) fn away(bytes: u64, source: Source, places: &Arc<Places>) -> Away {
    places.is_away(bytes);
    let booked = Booked { bytes, places: Arc::clone(places) };
    Away { bytes, place: Box::new(Outside { source, _booked: booked }) }
}

/// Where the bytes are.
pub(crate) fn source_of(away: &Away) -> &Source {
    let outside = away.place.downcast_ref::<Outside>().expect("storages are away by us alone");
    &outside.source
}

/// The same of one that is back.
pub(crate) fn into_source(away: Away) -> Source {
    let outside = away.place.downcast::<Outside>().expect("storages are away by us alone");
    outside.source
}

/// It is in the books until it is dropped.
struct Outside {
    source: Source,
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

/// Bytes outside of a device.
#[derive(Debug)]
pub(crate) enum Source {
    Host(Block),
    /// They are read when they are asked for.
    File(Part),
}

impl Source {
    pub(crate) fn bytes(&self) -> Result<Cow<'_, [u8]>, Error> {
        match self {
            Self::Host(block) => Ok(Cow::Borrowed(&block.buffer)),
            Self::File(part) => part.bytes().map(Cow::Owned),
        }
    }
}
