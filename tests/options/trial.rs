//! What the body of every cell does, and what it saw.

use std::cell::RefCell;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use toma::classify::OutOfMemory;
use toma::device::falls_back;
use toma::predict::is_dry;
use toma::ranks::when_agreed;

/// Items to do; all sizes of the table divide their number.
pub(crate) const RANGE: Range<usize> = 1000..1240;

/// Each item is its position.
pub(crate) const DATA: &[usize] = &{
    let mut data = [0; 240];
    let mut i = 0;
    while i < data.len() {
        data[i] = i;
        i += 1;
    }
    data
};

pub(crate) type Trial = TrialWith<()>;

pub(crate) type Error = OutOfMemory;

/// A body that runs out of memory above a limit, and writes down what it is given.
pub(crate) struct TrialWith<G> {
    limit: usize,
    /// The limit in fallback.
    other_limit: usize,
    attempts: RefCell<Vec<Range<usize>>>,
    successes: Arc<AtomicUsize>,
    /// What the row's option takes from the function's arguments.
    pub(crate) given: G,
}

impl Trial {
    /// A body for which more items than `limit` are too many.
    pub(crate) fn with_limit(limit: usize) -> Self {
        Self::giving((), limit)
    }
}

impl<G> TrialWith<G> {
    /// The same, with a value for the option.
    pub(crate) fn giving(given: G, limit: usize) -> Self {
        Self { limit, other_limit: limit, attempts: RefCell::default(), successes: Arc::default(), given }
    }

    /// The same with another limit in fallback.
    pub(crate) fn falling_back_to(self, other_limit: usize) -> Self {
        Self { other_limit, ..self }
    }

    /// The body.
    pub(crate) fn attempt<S: Position, E: Refusal>(&self, start: S, end: S) -> Result<(), E> {
        let items = position(start)..position(end);
        self.attempts.borrow_mut().push(items.clone());
        if items.len() > if falls_back() { self.other_limit } else { self.limit } {
            return Err(E::refused());
        }
        if !is_dry() {
            let successes = Arc::clone(&self.successes);
            when_agreed(move || {
                successes.fetch_add(1, Ordering::Relaxed);
            });
        }
        Ok(())
    }

    /// The items of each attempt.
    pub(crate) fn attempts(&self) -> Vec<Range<usize>> {
        self.attempts.borrow().clone()
    }

    /// The sizes tried, in order, repetitions left out: the same for one batch and for many pieces.
    pub(crate) fn steps(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.attempts.borrow().iter().map(Range::len).collect();
        sizes.dedup();
        sizes
    }

    /// Attempts that did not run out of memory; dry runs are none.
    pub(crate) fn successes(&self) -> usize {
        self.successes.load(Ordering::Relaxed)
    }
}

/// An error with which the body says that memory ran out.
pub(crate) trait Refusal: Debug {
    fn refused() -> Self;
}

impl Refusal for OutOfMemory {
    fn refused() -> Self {
        Self::new(None)
    }
}

/// The integers that attributes take.
pub(crate) trait Position: Copy + TryInto<usize, Error: Debug> + TryFrom<usize, Error: Debug> {}

impl Position for usize {}
impl Position for i64 {}

pub(crate) fn position(position: impl Position) -> usize {
    position.try_into().unwrap()
}

/// [`RANGE`] in the function's own integers.
pub(crate) fn range<S: Position>() -> (S, S) {
    (S::try_from(RANGE.start).unwrap(), S::try_from(RANGE.end).unwrap())
}
