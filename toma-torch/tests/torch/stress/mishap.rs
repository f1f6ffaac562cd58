//! Failures unrelated to memory, in libtorch's words, and counts of each class.

use std::fmt;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use tch::TchError;
use toma::classify::Class;

use super::THREADS;

/// Text that identifies each class; out of memory comes from the budget.
const CLASSES: [(Class, &str); 4] = [
    (Class::OutOfMemory, "CPU out of memory"),
    (Class::Transient, "CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling the stress test"),
    (Class::Poisoned, "CUDA error: an illegal memory access was encountered by the stress test"),
    (Class::Other, "a mistake of the stress test"),
];

fn index_of(class: Class) -> usize {
    CLASSES.iter().position(|(known, _)| *known == class).unwrap()
}

pub(super) fn failure(class: Class) -> TchError {
    TchError::Torch(CLASSES[index_of(class)].1.to_owned())
}

/// Returns the class of a failure that this test has injected or that its budget has caused.
pub(super) fn class_of(error: &str) -> Option<Class> {
    CLASSES.iter().find(|(_, text)| error.contains(text)).map(|(class, _)| *class)
}

/// Counts of calls, attempts and failures.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Attempts of each thread.
    pub(super) attempts: [AtomicU64; THREADS],
    /// Nesting depth of the attempts that each thread is in.
    inside: [AtomicU64; THREADS],
    pub(super) calls: AtomicU64,
    pub(super) waits: AtomicU64,
    of_class: [OfClass; CLASSES.len()],
}

/// Failures of one class.
#[derive(Debug, Default)]
pub(super) struct OfClass {
    /// Failures injected in attempts. Out-of-memory failures are counted by the allocator instead.
    pub(super) injected: AtomicU64,
    /// Failures that ended calls.
    pub(super) went_through: AtomicU64,
}

/// Guard of a thread that is in an attempt.
pub(super) struct Inside<'c>(&'c AtomicU64);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Counts {
    pub(super) fn attempts(&self) -> u64 {
        self.attempts.iter().map(|attempts| attempts.load(Relaxed)).sum()
    }

    /// Counts an attempt of a thread, which is in it as long as the guard lives.
    pub(super) fn begin(&self, thread: usize) -> Inside<'_> {
        self.attempts[thread].fetch_add(1, SeqCst);
        self.inside[thread].fetch_add(1, SeqCst);
        Inside(&self.inside[thread])
    }

    /// The number of the last attempt of a thread, while it is in one.
    pub(super) fn current(&self, thread: usize) -> Option<u64> {
        let number = self.attempts[thread].load(SeqCst);
        (self.inside[thread].load(SeqCst) > 0).then_some(number)
    }

    pub(super) fn of(&self, class: Class) -> &OfClass {
        &self.of_class[index_of(class)]
    }

    /// Checks that everything has happened and that most calls succeed; otherwise the test proves nothing.
    pub(super) fn check(&self) {
        let ended = self.of_class.each_ref().map(|class| class.went_through.load(Relaxed));
        assert!(ended.iter().all(|&count| count > 0), "a class is missing: {self}");
        assert!(self.waits.load(Relaxed) > 0, "no call has waited: {self}");
        assert!(ended.iter().sum::<u64>() < self.calls.load(Relaxed) / 2, "too little is done: {self}");
        for class in [Class::Poisoned, Class::Other].map(|class| self.of(class)) {
            assert_eq!(class.injected.load(Relaxed), class.went_through.load(Relaxed), "one is lost: {self}");
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |count: &AtomicU64| count.load(Relaxed);
        write!(f, "{} attempts, {} calls, {} waits", self.attempts(), of(&self.calls), of(&self.waits))?;
        CLASSES.iter().zip(&self.of_class).try_for_each(|((class, _), counts)| {
            write!(
                f,
                "; {class}: {} injected, {} ended a call",
                of(&counts.injected),
                of(&counts.went_through)
            )
        })
    }
}
