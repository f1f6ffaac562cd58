//! A view of the data may allocate memory of its own, so making it may fail. Such a failure belongs to the attempt.

use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use toma::chunk::{Chunk, ChunkOf, Chunked, Held};
use toma::{NoCache, execute};

use crate::asynchronous::{OUT_OF_MEMORY, block_on, failures, pause};

/// Values whose views are copies.
#[derive(Debug)]
struct Copied {
    values: Vec<usize>,
    /// Number of values that there is room for.
    limit: usize,
    /// Copies that are not dropped yet.
    alive: std::rc::Rc<Cell<usize>>,
}

impl Drop for Copied {
    fn drop(&mut self) {
        self.alive.set(self.alive.get() - 1);
    }
}

impl Copied {
    fn of(values: usize, limit: usize) -> Self {
        Self { values: (0..values).collect(), limit, alive: std::rc::Rc::new(Cell::new(1)) }
    }
}

impl<'a> ChunkOf<'a> for &Copied {
    type Held = Copied;
    type Chunk = &'a Copied;
}

impl Chunked for &Copied {
    fn extent(&self, _: isize) -> usize {
        self.values.len()
    }

    fn hold(&mut self, _: isize, range: Range<usize>) -> Held<'_, Self> {
        assert!(range.len() <= self.limit, "{OUT_OF_MEMORY}");
        assert_eq!(self.alive.replace(self.alive.get() + 1), 1, "one copy at a time");
        let alive = std::rc::Rc::clone(&self.alive);
        Copied { values: self.values[range].to_vec(), limit: self.limit, alive }
    }

    fn lend<'a>(held: &'a mut Held<'_, Self>) -> Chunk<'a, Self> {
        held
    }
}

#[toma::chunked(initial = 16, cache = NoCache)]
fn synchronous(data: &Copied, start: usize, end: usize, done: &mut Vec<usize>) {
    assert_eq!(data.values.len(), end - start);
    done.extend(&data.values);
}

#[toma::chunked(initial = 16, cache = NoCache)]
async fn plain(data: &Copied, start: usize, end: usize, done: &mut Vec<usize>) {
    assert_eq!(data.values.len(), end - start);
    pause().await;
    done.extend(&data.values);
}

#[toma::chunked(initial = 16, cache = NoCache, before_retry = done.truncate(data.values[0].min(start)))]
async fn undone(data: &Copied, start: usize, _end: usize, done: &mut Vec<usize>) {
    done.extend(&data.values);
    pause().await;
    assert!(data.values.len() < 3, "{OUT_OF_MEMORY}");
}

#[toma::chunked(initial = 16, cache = NoCache, before_retry = done.truncate(data.values[0].min(start)))]
fn undone_synchronously(data: &Copied, start: usize, _end: usize, done: &mut Vec<usize>) {
    done.extend(&data.values);
    assert!(data.values.len() < 3, "{OUT_OF_MEMORY}");
}

#[test]
fn a_view_that_has_no_room_is_tried_smaller() {
    for (limit, failed) in [(64, 0), (4, 2), (1, 4)] {
        let data = Copied::of(20, limit);
        let (mut done, mut of_async, mut of_undone) = (Vec::new(), Vec::new(), Vec::new());
        synchronous(&data, &mut done);
        assert_eq!((&done, failures()), (&data.values, failed));
        block_on(plain(&data, &mut of_async));
        assert_eq!((&of_async, failures()), (&data.values, failed));
        block_on(undone(&data, &mut of_undone));
        assert_eq!(of_undone, data.values);
        of_undone.clear();
        undone_synchronously(&data, &mut of_undone);
        assert_eq!(of_undone, data.values);
        assert_eq!(data.alive.get(), 1);
    }
}

#[test]
fn an_attempt_without_a_view_has_nothing_to_undo() {
    let (data, done) = (Copied::of(20, 4), Cell::new(0));
    let form = execute::with::<NoCache>().before_retry(|failed| done.set(done.get() - failed.len()));
    form.chunked(&data, 16, |_, start, end| done.set(done.get() + end - start));
    assert_eq!((done.get(), failures()), (20, 2));
}

#[test]
fn at_the_floor_the_panic_passes() {
    let (data, mut done) = (Copied::of(20, 0), Vec::new());
    let payload = catch_unwind(AssertUnwindSafe(|| block_on(plain(&data, &mut done)))).unwrap_err();
    assert_eq!(payload.downcast_ref::<String>().unwrap(), OUT_OF_MEMORY);
    assert_eq!((failures(), done.len()), (5, 0));
}
