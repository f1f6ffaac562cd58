//! Failures that are no matter of memory, as libtorch words them, and how often each class came.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tch::TchError;
use toma::classify::Class;

use super::THREADS;

const TRANSIENT: &str = "CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling the stress test";
const POISONED: &str = "CUDA error: an illegal memory access was encountered by the stress test";
const OTHER: &str = "a mistake of the stress test";

pub(super) fn failure(class: Class) -> TchError {
    let text = match class {
        Class::Transient => TRANSIENT,
        Class::Poisoned => POISONED,
        _ => OTHER,
    };
    TchError::Torch(text.to_owned())
}

/// The class of a failure that this test has made, or whose cause is its budget.
pub(super) fn class_of(error: &str) -> Option<Class> {
    let known = [
        ("CPU out of memory", Class::OutOfMemory),
        (TRANSIENT, Class::Transient),
        (POISONED, Class::Poisoned),
        (OTHER, Class::Other),
    ];
    known.into_iter().find(|(text, _)| error.contains(text)).map(|(_, class)| class)
}

/// How often things happened.
#[derive(Debug)]
pub(super) struct Counts {
    /// Of each thread.
    pub(super) attempts: [AtomicU64; THREADS],
    pub(super) calls: AtomicU64,
    pub(super) waits: AtomicU64,
    out_of_memory: OfClass,
    transient: OfClass,
    poisoned: OfClass,
    other: OfClass,
}

/// Failures of one class.
#[derive(Debug, Default)]
pub(super) struct OfClass {
    /// In attempts, without those that ran out of memory, which the allocator counts.
    pub(super) injected: AtomicU64,
    /// Those that ended calls.
    pub(super) went_through: AtomicU64,
}

impl Counts {
    pub(super) fn new() -> Self {
        Self {
            attempts: [const { AtomicU64::new(0) }; THREADS],
            calls: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            out_of_memory: OfClass::default(),
            transient: OfClass::default(),
            poisoned: OfClass::default(),
            other: OfClass::default(),
        }
    }

    pub(super) fn attempts(&self) -> u64 {
        self.attempts.iter().map(|attempts| attempts.load(Relaxed)).sum()
    }

    pub(super) fn of(&self, class: Class) -> &OfClass {
        match class {
            Class::OutOfMemory => &self.out_of_memory,
            Class::Transient => &self.transient,
            Class::Poisoned => &self.poisoned,
            _ => &self.other,
        }
    }

    /// Everything has happened, and most calls end well: else it proves nothing.
    pub(super) fn check(&self) {
        let classes = [&self.out_of_memory, &self.transient, &self.poisoned, &self.other];
        let ended = classes.map(|class| class.went_through.load(Relaxed));
        assert!(ended.iter().all(|&count| count > 0), "a class is missing: {self}");
        assert!(self.waits.load(Relaxed) > 0, "nobody has waited: {self}");
        assert!(ended.iter().sum::<u64>() < self.calls.load(Relaxed) / 2, "too little is done: {self}");
        for class in [&self.poisoned, &self.other] {
            assert_eq!(class.injected.load(Relaxed), class.went_through.load(Relaxed), "one is lost: {self}");
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |count: &AtomicU64| count.load(Relaxed);
        write!(f, "{} attempts, {} calls, {} waits; ", self.attempts(), of(&self.calls), of(&self.waits))?;
        write!(f, "{} ended out of memory", of(&self.out_of_memory.went_through))?;
        let classes = [("transient", &self.transient), ("poisoned", &self.poisoned), ("other", &self.other)];
        classes.iter().try_for_each(|(word, class)| {
            let (injected, ended) = (of(&class.injected), of(&class.went_through));
            write!(f, ", {injected} {word} of which {ended} ended a call")
        })
    }
}
