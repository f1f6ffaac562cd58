//! Loops that return their values one by one: the iterator and the stream.

mod both;
mod by_cost;
#[cfg(feature = "testing")]
mod idle;
mod iter;
mod places;
mod stream;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::task::Poll;

use toma::GlobalCache;
use toma::classify::OutOfMemory;

use crate::executor::{block_on, pause, poll};
use crate::kit::{OUT_OF_MEMORY, fits};

/// Records of the attempts of a body and of the learned sizes.
#[derive(Default)]
struct World {
    limit: Cell<usize>,
    attempts: RefCell<Vec<Range<usize>>>,
    /// Values of attempts that are not dropped yet.
    alive: Cell<usize>,
    cache: GlobalCache,
}

impl World {
    fn with_limit(limit: usize) -> Self {
        Self { limit: Cell::new(limit), ..Self::default() }
    }

    fn attempt(&self, start: usize, end: usize) -> Result<Range<usize>, OutOfMemory> {
        self.attempts.borrow_mut().push(start..end);
        fits(end - start, self.limit.get()).map(|()| start..end)
    }

    fn tried(&self) -> usize {
        self.attempts.borrow().len()
    }

    fn settled(&self) -> Option<usize> {
        let entries = self.cache.entries();
        assert!(entries.len() <= 1, "{entries:?}");
        entries.first().map(|entry| entry.remembered.settled)
    }
}

fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    poll(pin!(future))
}
