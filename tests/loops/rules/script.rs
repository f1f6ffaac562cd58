//! Scripts of failures: which attempts fail, how they fail, and the memory readings afterwards.

use crate::rules::plan::mix;
use crate::rules::twin::{Fate, World};

/// Attempts that run out of memory.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    Never,
    /// The attempts with these numbers, one bit each.
    Attempts(u64),
    /// Above this many items.
    Threshold(usize),
    /// Above `first` items, and from attempt `after` on above `last`.
    Moving {
        first: usize,
        after: usize,
        last: usize,
    },
    /// When the items, of different weights, are together heavier than this.
    Bytes(u64),
    /// By size, but a larger size may succeed where a smaller one fails.
    NonMonotone(u64),
}

/// Way in which a failure leaves the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Error,
    PanicWithText,
    PanicWithError,
    PanicWithBox,
    PanicWithOutOfMemory,
}

/// All failures of one call, as a pure function of the attempt.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) trouble: Trouble,
    /// One in so many attempts fails in another way; 0 for none.
    pub(crate) others: u64,
    pub(crate) seed: u64,
    /// Requested bytes in errors. Panics carry none.
    pub(crate) requested: Option<u64>,
    /// Free and total bytes after the attempts in turn; `None` for a failed reading.
    pub(crate) memory: [Option<(u64, u64)>; 2],
    /// True if the body cannot return errors.
    pub(crate) panics_only: bool,
}

impl Script {
    pub(crate) fn fate(&self, number: usize, start: usize, end: usize) -> Fate {
        let dice = mix(self.seed, [number, start, end]);
        if self.others > 0 && dice.is_multiple_of(self.others) {
            // Transient failures are those after which a call goes on.
            return match (dice >> 32) % 12 {
                0 => Fate::Poisoned,
                1 => Fate::Other,
                _ => Fate::Transient,
            };
        }
        if self.is_too_large(number, start, end) { Fate::OutOfMemory } else { Fate::Success }
    }

    fn is_too_large(&self, number: usize, start: usize, end: usize) -> bool {
        let size = end - start;
        match self.trouble {
            Trouble::Never => false,
            Trouble::Attempts(bits) => number < 64 && bits >> number & 1 == 1,
            Trouble::Threshold(most) => size > most,
            Trouble::Moving { first, after, last } => size > if number < after { first } else { last },
            Trouble::Bytes(budget) => (start..end).map(|item| self.weight(item)).sum::<u64>() > budget,
            Trouble::NonMonotone(seed) => mix(seed, [size, 0, 0]).is_multiple_of(3),
        }
    }

    /// Returns the weight of an item in bytes.
    fn weight(&self, item: usize) -> u64 {
        1 + mix(self.seed, [item, 7, 7]) % 16
    }

    /// Returns the reading of the memory source after attempt `number`.
    pub(crate) fn reading(&self, number: usize) -> Option<(u64, u64)> {
        self.memory[number % 2]
    }

    pub(crate) fn is_memory_low(&self, number: usize) -> bool {
        let requested = self.requested.filter(|_| self.manner(number) == Manner::Error);
        self.reading(number).is_some_and(|(free, total)| {
            requested.is_some_and(|requested| free < requested) || free * 10 < total
        })
    }

    pub(crate) fn is_error(&self, number: usize) -> bool {
        self.manner(number) == Manner::Error
    }

    pub(crate) fn manner(&self, number: usize) -> Manner {
        match mix(!self.seed, [number, 0, 0]) % 8 {
            0 => Manner::PanicWithText,
            1 => Manner::PanicWithError,
            2 => Manner::PanicWithBox,
            3 => Manner::PanicWithOutOfMemory,
            _ if self.panics_only => Manner::PanicWithBox,
            _ => Manner::Error,
        }
    }
}

impl World for &Script {
    fn fate(&mut self, number: usize, start: usize, end: usize) -> Fate {
        Script::fate(self, number, start, end)
    }

    fn is_memory_low(&self, number: usize) -> bool {
        Script::is_memory_low(self, number)
    }
}
