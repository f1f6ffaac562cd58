//! The options of a call that need no type of their own.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::sizes::SizeOptions;
use crate::device::Ladder;
use crate::memory::MemorySource;
use crate::observe::Observer;
use crate::predict::Predict;
use crate::ranks::Group;

/// See the setters of [`With`](crate::execute::With), which have the same names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options<'a> {
    pub(crate) sizes: SizeOptions,
    pub(crate) max_attempts: Option<usize>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) user: u64,
    pub(crate) device: Option<&'a dyn MemorySource>,
    pub(crate) observer: Option<&'a dyn Observer>,
    pub(crate) ladder: Option<Ladder<'a>>,
    pub(crate) predict: Option<&'a dyn Predict>,
    /// Flag that is set once an attempt works on all items: a smaller size would not help.
    pub(crate) is_whole: Option<&'a AtomicBool>,
    /// Ranks, if there is more than one.
    pub(crate) ranks: Option<&'a dyn Group>,
}

impl Options<'_> {
    /// True if a call needs stages for any option except the observer.
    #[inline]
    pub(crate) fn need_stages(&self) -> bool {
        let Self { sizes, deadline, device, ladder, predict, is_whole, ranks, .. } = self;
        sizes.first.is_some()
            | deadline.is_some()
            | device.is_some()
            | ladder.is_some()
            | predict.is_some()
            | is_whole.is_some()
            | ranks.is_some()
    }
}
