//! `before_retry` belongs to the attempt that failed, in every form: it knows which memory that was for,
//! and loops in it never wait for the attempt around them.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use toma::classify::OutOfMemory;
use toma::device::{Ladder, falls_back};
use toma::observe::{Event, EventKind};
use toma::testing::FakeDevice;
use toma::{NoCache, execute};

/// What `before_retry` found: whether it fell back, and whether a loop in it waited for anybody.
struct World {
    device: FakeDevice,
    found: RefCell<Vec<(bool, bool)>>,
}

impl World {
    fn new() -> Self {
        Self { device: FakeDevice::new(100), found: RefCell::default() }
    }

    fn undo(&self) {
        let waited = AtomicBool::new(false);
        let seen = |event: &Event<'_>| {
            if matches!(event.kind, EventKind::Waits { .. }) {
                waited.store(true, SeqCst);
            }
        };
        let with = execute::with::<NoCache>().device(&self.device).observer(&seen).ladder(ladder());
        with.batch(2, |size| fits(size <= 1)).unwrap();
        self.found.borrow_mut().push((falls_back(), waited.into_inner()));
    }

    /// After 2 and after 1 on the device, and after 2 elsewhere.
    #[track_caller]
    fn check(&self) {
        assert_eq!(self.found.take(), [(false, false), (false, false), (true, false)]);
        assert!(!falls_back());
    }
}

/// It waits, but not for long where it should not.
fn ladder() -> Ladder<'static> {
    Ladder::default().wait(Duration::from_millis(20)).fallback(true)
}

fn fits(it_does: bool) -> Result<(), OutOfMemory> {
    if it_does { Ok(()) } else { Err(OutOfMemory::new(None)) }
}

fn body(size: usize) -> Result<(), OutOfMemory> {
    fits(falls_back() && size <= 1)
}

#[toma::batch(initial = 2, cache = NoCache, device = &world.device, ladder = ladder(), before_retry = world.undo())]
fn batch(size: usize, world: &World) -> Result<(), OutOfMemory> {
    body(size)
}

#[toma::range(initial = 2, cache = NoCache, device = &world.device, ladder = ladder(), before_retry = world.undo())]
fn range(start: usize, end: usize, world: &World) -> Result<(), OutOfMemory> {
    body(end - start)
}

#[toma::chunked(initial = 2, cache = NoCache, device = &world.device, ladder = ladder(), before_retry = world.undo())]
fn chunked(data: &[u8], _start: usize, _end: usize, world: &World) -> Result<(), OutOfMemory> {
    body(data.len())
}

#[test]
fn of_attributes() {
    let world = World::new();
    batch(&world).unwrap();
    world.check();
    range(0, 2, &world).unwrap();
    world.check();
    chunked(&[0; 2], &world).unwrap();
    world.check();
}

#[test]
fn of_inline_forms() {
    let world = World::new();
    let form = || {
        let with = execute::with::<NoCache>().device(&world.device).ladder(ladder());
        with.before_retry(|_| world.undo())
    };
    let by = |start: usize, end: usize| body(end - start);
    form().batch(2, body).unwrap();
    world.check();
    form().range(0..2, 2, by).unwrap();
    world.check();
    form().chunked(&[0; 2][..], 2, |_, start, end| by(start, end)).unwrap();
    world.check();
    form().map(0..2, 2, by).unwrap();
    world.check();
    form().fold(0..2, 2, (), |(), start, end| by(start, end)).unwrap();
    world.check();
    form().iter(0..2, 2, by).collect::<Result<Vec<_>, _>>().unwrap();
    world.check();
    form().by_cost(|_| 1).range(0..2, 2, by).unwrap();
    world.check();
}

mod asynchronous {
    use super::*;

    #[toma::batch(initial = 2, cache = NoCache, device = &world.device, ladder = ladder(), before_retry = undo(world).await)]
    pub(super) async fn batch(size: usize, world: &World) -> Result<(), OutOfMemory> {
        pause().await;
        body(size)
    }

    #[toma::range(initial = 2, cache = NoCache, device = &world.device, ladder = ladder(), before_retry = undo(world).await)]
    pub(super) async fn range(start: usize, end: usize, world: &World) -> Result<(), OutOfMemory> {
        pause().await;
        body(end - start)
    }

    #[toma::chunked(initial = 2, cache = NoCache, device = &world.device, ladder = ladder(), before_retry = world.undo())]
    pub(super) async fn chunked(
        data: &[u8],
        _start: usize,
        _end: usize,
        world: &World,
    ) -> Result<(), OutOfMemory> {
        pause().await;
        body(data.len())
    }

    async fn undo(world: &World) {
        let before = falls_back();
        pause().await;
        assert_eq!(falls_back(), before, "after every await");
        world.undo();
    }
}

#[test]
fn of_async_attributes() {
    let world = World::new();
    block_on(asynchronous::batch(&world)).unwrap();
    world.check();
    block_on(asynchronous::range(0, 2, &world)).unwrap();
    world.check();
    block_on(asynchronous::chunked(&[0; 2], &world)).unwrap();
    world.check();
}

#[test]
fn of_streams() {
    let world = World::new();
    let with = execute::with::<NoCache>().device(&world.device).ladder(ladder());
    let mut rows = with.before_retry(|_| world.undo()).stream(0..2, 2, async |start, end| {
        pause().await;
        body(end - start)
    });
    while let Some(row) = block_on(rows.next()) {
        row.unwrap();
    }
    world.check();
}

/// Other tasks of the thread are in no fallback meanwhile.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
        assert!(!falls_back(), "between polls");
    }
}

async fn pause() {
    let mut first = true;
    poll_fn(|_| if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) }).await;
}
