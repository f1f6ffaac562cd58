use std::fmt;
use std::io;

use tch::TchError;
use toma_core::classify::{Class, Classify as _, Failure};

/// An error of libtorch or of this crate, with its kind.
///
/// ```
/// use tch::TchError;
/// use toma_torch::{Error, ErrorKind};
///
/// // A body that returns errors of tch passes ours on, and they come back unchanged.
/// let refused = TchError::Kind("not a device".to_owned());
/// assert_eq!(Error::from(refused).kind(), ErrorKind::Other);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// Words in the error of an access to a tensor whose memory is evicted; the device follows.
pub(crate) const EVICTED: &str = "is evicted from ";

/// Kind of an [`Error`].
///
/// ```
/// use toma_torch::{Device, ErrorKind};
///
/// match Device::new(tch::Device::Cuda(7)).stats() {
///     Ok(stats) => println!("{} bytes", stats.allocated_bytes),
///     Err(error) if error.kind() == ErrorKind::NoDevice => println!("fewer than eight GPUs: {error}"),
///     Err(error) => println!("{error}"),
/// }
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Memory ran out.
    OutOfMemory,
    /// There is no such device, or this program's libtorch does not know its kind.
    NoDevice,
    /// The device exists, and does not support the request.
    Unsupported,
    /// The memory of a tensor has been evicted from its device by its [manager](crate::offload).
    Offloaded,
    /// Anything else.
    Other,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: String) -> Self {
        Self { kind, message }
    }

    /// Returns the kind of this error.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error.kind {
            ErrorKind::OutOfMemory => io::ErrorKind::OutOfMemory,
            ErrorKind::NoDevice => io::ErrorKind::NotFound,
            ErrorKind::Unsupported => io::ErrorKind::Unsupported,
            ErrorKind::Offloaded | ErrorKind::Other => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// For bodies that return errors of tch. The error keeps its kind, and converts back to an [`Error`] unchanged.
impl From<Error> for TchError {
    fn from(error: Error) -> Self {
        Self::Io(error.into())
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let is_out_of_memory = failure.class == Class::OutOfMemory;
        let kind = if is_out_of_memory { ErrorKind::OutOfMemory } else { ErrorKind::Other };
        Self::new(kind, failure.message.into_owned())
    }
}

impl From<TchError> for Error {
    fn from(error: TchError) -> Self {
        if let Some(own) = within(&error) {
            return own.clone();
        }
        let text = error.to_string();
        if text.contains(EVICTED) {
            return Self::new(ErrorKind::Offloaded, text);
        }
        Failure::new(error.classify().class, text).into()
    }
}

/// Returns the error from which an error of tch was made.
fn within(error: &TchError) -> Option<&Error> {
    let TchError::Io(error) = error else { return None };
    error.get_ref()?.downcast_ref()
}

/// Returns the class of an error for a loop. The text decides if the kind is [`Other`](ErrorKind::Other).
pub(crate) fn class_of(error: &Error) -> Option<Class> {
    match error.kind {
        ErrorKind::OutOfMemory => Some(Class::OutOfMemory),
        ErrorKind::NoDevice | ErrorKind::Unsupported | ErrorKind::Offloaded => Some(Class::Other),
        ErrorKind::Other => None,
    }
}

/// Returns the class of an error of tch. The error of [`io`] within it is not among its sources.
pub(crate) fn class_of_tch(error: &TchError) -> Option<Class> {
    match error {
        TchError::Io(error) if error.kind() == io::ErrorKind::OutOfMemory => Some(Class::OutOfMemory),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [(ErrorKind, Class); 4] = [
        (ErrorKind::OutOfMemory, Class::OutOfMemory),
        (ErrorKind::NoDevice, Class::Other),
        (ErrorKind::Unsupported, Class::Other),
        (ErrorKind::Other, Class::Other),
    ];

    #[test]
    fn the_kind_decides_for_any_text_and_any_wrapper() {
        for (kind, class) in KINDS {
            let error = || Error::new(kind, "no room".to_owned());
            assert_eq!(error().classify().class, class, "{kind:?}");
            assert_eq!(io::Error::from(error()).classify().class, class, "{kind:?}");
            assert_eq!(TchError::from(error()).classify().class, class, "{kind:?}");
            assert_eq!(TchError::from(error()).to_string(), "no room");
            assert_eq!(Error::from(TchError::from(error())), error(), "there and back");
        }
        let of_text = |kind| Error::new(kind, "CUDA out of memory. Tried to allocate".to_owned());
        assert_eq!(of_text(ErrorKind::Unsupported).classify().class, Class::Other);
        assert_eq!(of_text(ErrorKind::Other).classify().class, Class::OutOfMemory, "no kind of its own");
        let error = TchError::from(Error::new(ErrorKind::OutOfMemory, "CPU out of memory".to_owned()));
        assert_eq!(error.classify().message, "CPU out of memory");
    }

    #[test]
    fn a_panic_with_an_error_is_classified_by_its_kind() {
        let mut attempts = 0;
        toma_core::execute::with::<toma_core::NoCache>().batch(4, |batch_size| {
            attempts += 1;
            if batch_size > 1 {
                std::panic::panic_any(Error::new(ErrorKind::OutOfMemory, "no room".to_owned()));
            }
        });
        assert_eq!(attempts, 3);
    }
}
