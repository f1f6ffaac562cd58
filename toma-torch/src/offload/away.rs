//! What stands for memory while it is away.

use std::borrow::Cow;
use std::sync::Arc;

use super::host::Block;
use super::table::Places;
use super::weights_file::Part;
use crate::error::Error;

/// Where the bytes of a storage are that is not on its device. It belongs to the storage, and ends with it.
#[derive(Debug)]
pub(crate) struct Away {
    pub(crate) bytes: u64,
    pub(crate) source: Source,
    /// Ends what the books say of it.
    _booked: Booked,
}

impl Away {
    pub(crate) fn new(bytes: u64, source: Source, places: &Arc<Places>) -> Self {
        places.is_away(bytes);
        Self { bytes, source, _booked: Booked { bytes, places: Arc::clone(places) } }
    }
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
