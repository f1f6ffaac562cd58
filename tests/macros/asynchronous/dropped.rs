//! Futures that are dropped at any await: nothing is lost, and the next call works.

use std::cell::Cell;
use std::pin::pin;

use toma::classify::OutOfMemory;
use toma::{GlobalCache, report};

use crate::asynchronous::{block_on, pause, poll};
use crate::kit::fits;

const ITEMS: usize = 24;

/// Effects of a body: items done, values alive, attempts begun.
#[derive(Default)]
struct World {
    limit: usize,
    done: Cell<usize>,
    alive: Cell<usize>,
    undone: Cell<usize>,
    cache: GlobalCache,
}

impl World {
    fn with_limit(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Makes an attempt at these items that is pending at its start, with values alive, and at its end.
    async fn attempt(&self, start: usize, end: usize) -> Result<(), OutOfMemory> {
        let _value = Value::new(&self.alive);
        pause().await;
        fits(end - start, self.limit)?;
        pause().await;
        assert_eq!(self.done.get(), start, "items in order, each once");
        self.done.set(end);
        Ok(())
    }

    /// Returns the size that the cache remembers.
    fn settled(&self) -> Option<usize> {
        let entries = self.cache.entries();
        assert!(entries.len() <= 1);
        entries.first().map(|entry| entry.remembered.settled)
    }
}

/// Counts as alive until it is dropped.
struct Value<'a>(&'a Cell<usize>);

impl<'a> Value<'a> {
    fn new(alive: &'a Cell<usize>) -> Self {
        alive.set(alive.get() + 1);
        Self(alive)
    }
}

impl Drop for Value<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[toma::batch(initial = 16, cache = &world.cache, before_retry = world.undone.set(world.undone.get() + 1))]
async fn batch(size: usize, world: &World) -> Result<usize, OutOfMemory> {
    world.done.set(0);
    world.attempt(0, size).await?;
    Ok(size)
}

#[toma::range(initial = 16, cache = &world.cache, before_retry = world.undone.set(world.undone.get() + 1))]
async fn range(start: usize, end: usize, world: &World) -> Result<(), OutOfMemory> {
    world.attempt(start, end).await
}

#[toma::chunked(initial = 16, cache = &world.cache, before_retry = world.undone.set(world.undone.get() + 1))]
async fn chunked(data: &mut [u8], start: usize, end: usize, world: &World) -> Result<(), OutOfMemory> {
    world.attempt(start, end).await?;
    for value in data {
        *value += 1;
    }
    Ok(())
}

/// Polls a new future `polls` times and drops it. Returns `false` if it was done before.
fn poll_and_drop<F: Future>(future: F, polls: usize) -> bool {
    let mut future = pin!(future);
    (0..polls).all(|_| poll(future.as_mut()).is_pending())
}

/// Number of polls after which these futures are done.
const ENOUGH: usize = 100;

#[test]
fn a_range_dropped_anywhere() {
    let mut settled_at = 0;
    for polls in 0..ENOUGH {
        let world = World::with_limit(4);
        if !poll_and_drop(range(0, ITEMS, &world), polls) {
            assert_eq!(world.done.get(), ITEMS);
            assert!(settled_at > 0 && settled_at < polls, "some drops came after a piece had succeeded");
            return;
        }
        assert_eq!(world.alive.get(), 0, "the values of the dropped attempt are dropped");
        let done = world.done.get();
        assert_eq!(done % 4, 0);
        assert_eq!(world.settled(), (done > 0).then_some(4), "after {polls} polls");
        settled_at = if done > 0 { settled_at.max(polls) } else { settled_at };

        block_on(range(done, ITEMS, &world)).unwrap();
        assert_eq!(world.done.get(), ITEMS);
        let tried: Vec<_> = report::last().unwrap().tried.iter().map(|tried| tried.size).collect();
        assert_eq!(tried.is_empty(), done > 0, "what had settled is where the next call starts");
        assert_eq!(world.settled(), Some(4));
    }
    unreachable!("the range never ended");
}

#[test]
fn chunked_data_dropped_anywhere() {
    for polls in 0..ENOUGH {
        let (world, mut data) = (World::with_limit(4), [0; ITEMS]);
        if !poll_and_drop(chunked(&mut data, &world), polls) {
            assert_eq!(data, [1; ITEMS]);
            return;
        }
        let done = world.done.get();
        let expected: Vec<u8> = (0..ITEMS).map(|i| u8::from(i < done)).collect();
        assert_eq!(data[..], expected, "after {polls} polls");
        assert_eq!(world.settled(), (done > 0).then_some(4));
        assert_eq!(world.alive.get(), 0);

        world.done.set(0);
        block_on(chunked(&mut data, &world)).unwrap();
        assert_eq!(data[ITEMS - 1], 1);
    }
    unreachable!("the chunks never ended");
}

#[test]
fn a_batch_dropped_anywhere() {
    for polls in 0..ENOUGH {
        let world = World::with_limit(4);
        if !poll_and_drop(batch(&world), polls) {
            assert_eq!((world.settled(), world.undone.get()), (Some(4), 2));
            return;
        }
        assert_eq!(world.settled(), None, "a size that never succeeded is not remembered");
        assert_eq!(world.alive.get(), 0);
        assert_eq!(block_on(batch(&world)), Ok(4));
        assert_eq!(world.settled(), Some(4));
    }
    unreachable!("the batch never ended");
}

#[test]
fn undoing_comes_before_the_await_of_a_retry() {
    let mut seen = Vec::new();
    for polls in 0..ENOUGH {
        let world = World::with_limit(4);
        if !poll_and_drop(batch(&world), polls) {
            break;
        }
        seen.push(world.undone.get());
    }
    assert!(seen.is_sorted());
    // Pending in an attempt and before its retry, twice; then in the attempt that succeeds.
    assert_eq!(seen, [0, 0, 1, 1, 2, 2, 2]);
}
