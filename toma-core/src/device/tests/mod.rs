//! Turns and waits, as the engine uses them, and the rules behind them in every order.

mod bytes;
mod every_order;
mod fork;
mod threads;
mod turns;
mod waits;
mod world;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use super::turn::{Handle, Queue};
use super::*;
use crate::memory::{MemorySource, Reading};
use crate::nesting::{Enclosing, Inside};

/// Longer than any test takes.
const AGES: Duration = Duration::from_secs(60);

/// A device for one test alone, so that the test can check that nothing is left there.
fn device() -> Device {
    Device { queue: Handle::Counted(Arc::new(Queue::new("a device"))) }
}

fn is_empty(device: &Device) -> bool {
    device.queue.state.lock().is_empty() && device.queue.ledger.lock().is_empty()
}

fn enclosed(mut outer: Enclosing, turn: &Turn, promises: bool) -> Enclosing {
    turn.enclose(&mut outer, promises);
    outer
}

fn at_most(at_most: Duration) -> WaitBounds<'static> {
    WaitBounds { at_most, deadline: None, cancel: None }
}

fn exclusive(device: &Device) -> Waiting<'static> {
    device.wait_for(TurnKind::Exclusive, at_most(AGES))
}

/// A memory of 1000 bytes, of which `free` are free, and whose name alternates between two names.
#[derive(Debug)]
struct Pool {
    names: [&'static str; 2],
    free: AtomicUsize,
    reads: AtomicUsize,
}

impl Pool {
    fn new(name: &'static str) -> Self {
        Self { names: [name; 2], free: AtomicUsize::new(1000), reads: AtomicUsize::default() }
    }
}

impl MemorySource for Pool {
    fn name(&self) -> &str {
        self.names[self.reads.fetch_add(1, Relaxed) % 2]
    }

    fn read(&self) -> std::io::Result<Reading> {
        Ok(Reading::new(self.free.load(Relaxed) as u64, 1000))
    }
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// A task that waits.
struct Task<F> {
    future: F,
    woken: Arc<Count>,
}

impl<F: Future + Unpin> Task<F> {
    fn new(future: F) -> Self {
        Self { future, woken: Arc::default() }
    }

    /// A task that has been polled once, and waits.
    fn waiting(future: F) -> Self {
        let mut task = Self::new(future);
        assert!(task.poll().is_none());
        task
    }

    fn poll(&mut self) -> Option<F::Output> {
        let waker = Waker::from(Arc::clone(&self.woken));
        match Pin::new(&mut self.future).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    fn is_woken(&self) -> bool {
        self.woken.0.load(Relaxed) > 0
    }

    /// Polls the task if it was woken.
    fn poll_woken(&mut self) -> Option<F::Output> {
        if self.woken.0.swap(0, Relaxed) == 0 { None } else { self.poll() }
    }
}

type Reserving<'a> = Pin<Box<dyn Future<Output = Result<Reservation, NotReserved>> + Send + 'a>>;

fn waiting(pool: &Pool, bytes: u64, timeout: Duration) -> Task<Reserving<'_>> {
    Task::waiting(Box::pin(reserve_async(pool, bytes, timeout)))
}

/// Returns the turn of a wait that was granted one.
#[track_caller]
fn in_turn(ended: Option<(Turn, How)>) -> Turn {
    let (turn, how) = ended.expect("the turn has come");
    assert_eq!(how, How::InTurn);
    turn
}

/// Waits until `is_so` returns true.
fn until(mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < AGES, "it never came");
        thread::sleep(Duration::from_millis(1));
    }
}
