//! Memories in which blocks lie.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The memory that holds a block: the host's, or that of one device.
///
/// It is written `host`, or kind and index, such as `cuda:0`. Clones share the text.
///
/// ```
/// use toma_trace::Place;
///
/// let gpu = Place::device("cuda", 1);
/// assert_eq!((gpu.to_string(), gpu.as_device()), ("cuda:1".to_owned(), Some(("cuda", 1))));
/// assert_eq!("host".parse(), Ok(Place::HOST));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Place(Option<(Arc<str>, u32)>);

impl Place {
    /// The memory of the host.
    pub const HOST: Self = Self(None);

    /// Returns the memory of a device, by its kind and its index among devices of that kind.
    ///
    /// # Panics
    ///
    /// If `kind` is `host`, or not made of ASCII letters, digits and `_`.
    #[must_use]
    pub fn device(kind: &str, index: u32) -> Self {
        assert!(is_kind(kind), "device kind {kind:?}: must be letters, digits and `_`, and not `host`");
        Self(Some((kind.into(), index)))
    }

    /// Returns the kind of device and its index, or `None` for the host.
    #[must_use]
    pub fn as_device(&self) -> Option<(&str, u32)> {
        self.0.as_ref().map(|(kind, index)| (&**kind, *index))
    }
}

fn is_kind(text: &str) -> bool {
    !["", "host"].contains(&text) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_device() {
            None => f.write_str("host"),
            Some((kind, index)) => write!(f, "{kind}:{index}"),
        }
    }
}

/// The text is neither `host` nor a kind of device and its index.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown place {0:?}: expected `host` or `kind:index`")]
pub struct UnknownPlace(String);

impl FromStr for Place {
    type Err = UnknownPlace;

    fn from_str(text: &str) -> Result<Self, UnknownPlace> {
        let unknown = || UnknownPlace(text.to_owned());
        if text == "host" {
            return Ok(Self::HOST);
        }
        let (kind, index) = text.split_once(':').filter(|(kind, _)| is_kind(kind)).ok_or_else(unknown)?;
        Ok(Self::device(kind, index.parse().map_err(|_| unknown())?))
    }
}

impl From<Place> for String {
    fn from(place: Place) -> Self {
        place.to_string()
    }
}

impl TryFrom<String> for Place {
    type Error = UnknownPlace;

    fn try_from(text: String) -> Result<Self, UnknownPlace> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::Place;

    #[test]
    fn a_place_is_its_text() {
        for place in [Place::HOST, Place::device("cuda", 0), Place::device("privateuseone", u32::MAX)] {
            assert_eq!(place.to_string().parse(), Ok(place));
        }
        assert_eq!("cuda:1".parse::<Place>().unwrap().as_device(), Some(("cuda", 1)));
    }

    #[test]
    fn other_texts_are_refused_by_name() {
        for text in ["", "cuda", "host:0", "cuda:", "cuda:-1", "cuda:4294967296", ":0", "a b:0", "cuda:0:0"] {
            let refused = text.parse::<Place>();
            assert!(refused.is_err(), "{text:?}: {refused:?}");
        }
        let error = "gpu".parse::<Place>().unwrap_err();
        assert_eq!(error.to_string(), "unknown place \"gpu\": expected `host` or `kind:index`");
    }
}
