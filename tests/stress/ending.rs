//! How a call ended.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::fault::Fault;

/// How a call ended.
#[derive(Debug)]
pub(crate) enum Ending {
    /// Success, with the items of each value that came back, for forms that return values.
    Done(Option<Vec<Range<usize>>>),
    /// The call was dropped before its end.
    Left,
    Error(Fault),
    Panic(Box<dyn Any + Send>),
}

impl Ending {
    pub(crate) fn of(call: impl FnOnce() -> Result<Self, Fault>) -> Self {
        Self::from_caught(catch_unwind(AssertUnwindSafe(call)))
    }

    pub(crate) fn from_caught(result: Result<Result<Self, Fault>, Box<dyn Any + Send>>) -> Self {
        match result {
            Ok(Ok(ending)) => ending,
            Ok(Err(fault)) => Self::Error(fault),
            Err(payload) => Self::Panic(payload),
        }
    }

    /// Ends in the same way as the call.
    pub(crate) fn pass_on(self) -> Result<(), Fault> {
        match self {
            Self::Done(_) | Self::Left => Ok(()),
            Self::Error(fault) => Err(fault),
            Self::Panic(payload) => resume_unwind(payload),
        }
    }
}

/// Returns the text of a panic.
pub(crate) fn text_of(payload: &dyn Any) -> Option<&str> {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
}
