//! What went wrong: sorting failures into the few classes that decide what happens next.

use std::borrow::Cow;

/// What kind of failure ended an attempt, and so what the engine does next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Memory ran out: the piece is tried again with a smaller size.
    OutOfMemory,
    /// May be memory, may be a hiccup: the same size is tried once more, and then shrunk only
    /// when free memory is low.
    Transient,
    /// The device context is unusable (illegal access, device assert): nothing is tried again.
    Poisoned,
    /// Anything else: goes through unchanged on the first attempt.
    Other,
}

/// One classified failure: its class, and the number of bytes asked for when that is known.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure it is.
    pub class: Class,
    /// Bytes the failed allocation asked for, when the error says so.
    pub requested_bytes: Option<u64>,
    /// The error's own words, for events and reports.
    pub message: Cow<'static, str>,
}

impl Failure {
    /// A failure of `class` with the error's own words.
    pub fn new(class: Class, message: impl Into<Cow<'static, str>>) -> Self {
        Self { class, requested_bytes: None, message: message.into() }
    }

    /// The same failure with the number of bytes that were asked for.
    #[must_use]
    pub fn requesting(self, bytes: Option<u64>) -> Self {
        Self { requested_bytes: bytes, ..self }
    }
}
