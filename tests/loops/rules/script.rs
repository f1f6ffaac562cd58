//! Scripts of failures: which attempt fails, how, and what the memory says then.

use crate::rules::plan::mix;
use crate::rules::twin::{Fate, World};

/// When attempts run out of memory.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    Never,
    /// At the attempts with these numbers.
    Attempts(u64),
    /// Above this many items.
    Threshold(usize),
    /// Above `first` items, and from attempt `after` on above `last`.
    Moving {
        first: usize,
        after: usize,
        last: usize,
    },
    /// When the items, of different weights, are heavier than this together.
    Bytes(u64),
    /// By size, but a larger one may run where a smaller one fails.
    NonMonotone(u64),
}

/// How a failure comes out of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Error,
    PanicWithText,
    PanicWithError,
    PanicWithBox,
    PanicWithOutOfMemory,
}

/// Everything that goes wrong in one call: a pure function of the attempt.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) trouble: Trouble,
    /// One attempt in so many fails in another way; 0 is none.
    pub(crate) others: u64,
    pub(crate) seed: u64,
    /// Bytes that errors say were asked for; panics do not say.
    pub(crate) requested: Option<u64>,
    /// Free and total bytes after the attempts in turn; `None` cannot be read.
    pub(crate) memory: [Option<(u64, u64)>; 2],
    /// Whether the body cannot return errors.
    pub(crate) panics_only: bool,
}

impl Script {
    pub(crate) fn fate(&self, number: usize, start: usize, end: usize) -> Fate {
        let dice = mix(self.seed, [number, start, end]);
        if self.others > 0 && dice.is_multiple_of(self.others) {
            // Transient failures are the ones after which a call goes on.
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

    /// What an item weighs, in bytes.
    fn weight(&self, item: usize) -> u64 {
        1 + mix(self.seed, [item, 7, 7]) % 16
    }

    /// What the memory source says after attempt `number`.
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
