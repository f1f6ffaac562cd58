//! The options of a call that need no type of their own.

use std::time::Duration;

use super::sizes::SizeOptions;
use crate::device::Ladder;
use crate::memory::MemorySource;
use crate::observe::Observer;

/// See the setters of [`With`](crate::execute::With), which have the same names.
#[derive(Clone, Debug)]
pub(crate) struct Options<'a> {
    pub(crate) sizes: SizeOptions,
    pub(crate) max_attempts: usize,
    pub(crate) deadline: Option<Duration>,
    pub(crate) user: u64,
    pub(crate) device: Option<&'a dyn MemorySource>,
    pub(crate) observer: Option<&'a dyn Observer>,
    pub(crate) ladder: Option<Ladder<'a>>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            sizes: SizeOptions::default(),
            max_attempts: usize::MAX,
            deadline: None,
            user: 0,
            device: None,
            observer: None,
            ladder: None,
        }
    }
}
