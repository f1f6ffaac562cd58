//! `before_retry` belongs to the attempt that failed, whatever drives the attempt: it knows the memory of that attempt,
//! and loops in it never wait for the attempt around them.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use toma::classify::OutOfMemory;
use toma::device::{Ladder, falls_back};
use toma::testing::FakeDevice;
use toma::{NoCache, execute};

use crate::device::kit::Watching;
use crate::executor::{pause, poll};

/// Records of `before_retry`: true if it runs in fallback, and true if a loop in it has waited.
struct World {
    device: FakeDevice,
    found: RefCell<Vec<(bool, bool)>>,
}

impl World {
    fn undo(&self) {
        let seen = Watching::default();
        let with = execute::with::<NoCache>().device(&self.device).observer(&seen).ladder(ladder());
        with.batch(2, |size| fits(size <= 1)).unwrap();
        self.found.borrow_mut().push((falls_back(), seen.has_waited()));
    }

    /// Asserts the records after sizes 2 and 1 on the device, and after size 2 in fallback.
    #[track_caller]
    fn check(&self) {
        assert_eq!(self.found.take(), [(false, false), (false, false), (true, false)]);
        assert!(!falls_back());
    }
}

fn ladder() -> Ladder<'static> {
    Ladder::default().wait(Duration::from_millis(20)).fallback(true)
}

fn fits(it_does: bool) -> Result<(), OutOfMemory> {
    if it_does { Ok(()) } else { Err(OutOfMemory::new(None)) }
}

fn body(size: usize) -> Result<(), OutOfMemory> {
    fits(falls_back() && size <= 1)
}

#[toma::chunked(initial = 2, cache = NoCache, device = &world.device, ladder = ladder(), before_retry = world.undo())]
fn blocking(data: &[u8], _start: usize, _end: usize, world: &World) -> Result<(), OutOfMemory> {
    body(data.len())
}

#[toma::range(initial = 2, cache = NoCache, device = &world.device, ladder = ladder(), before_retry = undo(world).await)]
async fn polled(start: usize, end: usize, world: &World) -> Result<(), OutOfMemory> {
    pause().await;
    body(end - start)
}

async fn undo(world: &World) {
    let before = falls_back();
    pause().await;
    assert_eq!(falls_back(), before, "after every await");
    world.undo();
}

/// Runs a future. Between its polls, where other tasks of the thread would run, nothing is in fallback.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = poll(future.as_mut()) {
            return output;
        }
        assert!(!falls_back(), "between polls");
    }
}

#[test]
fn it_is_where_the_attempt_was_that_failed() {
    let world = World { device: FakeDevice::new(100), found: RefCell::default() };
    let form = || {
        let with = execute::with::<NoCache>().device(&world.device).ladder(ladder());
        with.before_retry(|_| world.undo())
    };
    let by = |start: usize, end: usize| body(end - start);
    blocking(&[0; 2], &world).unwrap();
    world.check();
    form().batch(2, body).unwrap();
    world.check();
    form().iter(0..2, 2, by).collect::<Result<Vec<_>, _>>().unwrap();
    world.check();
    form().by_cost(|_| 1).range(0..2, 2, by).unwrap();
    world.check();
    block_on(polled(0, 2, &world)).unwrap();
    world.check();
    let mut rows = form().stream(0..2, 2, async |start, end| {
        pause().await;
        by(start, end)
    });
    while let Some(row) = block_on(rows.next()) {
        row.unwrap();
    }
    world.check();
}
