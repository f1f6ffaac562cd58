use std::cell::Cell;
use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::Builder;
use tokio::task::yield_now;
use toma::NoCache;
use toma::classify::OutOfMemory;
use toma::execute::{self, Stream};

use crate::lazy::{OUT_OF_MEMORY, World, block_on, pause, poll_once};

/// Runs a body that is pending at its start, with a value alive, and at its end.
async fn attempt(world: &World, start: usize, end: usize) -> Result<Range<usize>, OutOfMemory> {
    let _value = Alive::new(&world.alive);
    pause().await;
    let outcome = world.attempt(start, end);
    pause().await;
    outcome
}

/// Makes all calls at one call site, so that they share learned sizes.
pub(crate) fn stream(
    world: &World,
    range: Range<usize>,
    initial: usize,
) -> Stream<Result<Range<usize>, OutOfMemory>, impl Future<Output = ()>> {
    let form = execute::with::<NoCache>().cache(&world.cache);
    form.stream(range, initial, move |start, end| attempt(world, start, end))
}

/// Polls the stream until each value is ready, and returns the values.
pub(crate) fn values<R>(mut stream: Stream<R, impl Future<Output = ()>>) -> impl Iterator<Item = R> {
    std::iter::from_fn(move || block_on(stream.next()))
}

fn collect<R>(stream: Stream<R, impl Future<Output = ()>>) -> Vec<R> {
    values(stream).collect()
}

async fn length(start: usize, end: usize) -> usize {
    pause().await;
    end - start
}

#[test]
fn bodies_of_every_kind() {
    let shared = [1, 2, 3, 4];
    let sum = async |start: usize, end: usize| {
        pause().await;
        shared[start..end].iter().sum::<i32>()
    };
    assert_eq!(collect(execute::with::<NoCache>().stream(0..4, 2, sum)), [3, 7]);

    assert_eq!(collect(execute::with::<NoCache>().stream(0..5, 2, length)), [2, 2, 1]);

    let mut calls = 0;
    let counting = |start, end| {
        calls += 1;
        length(start, end)
    };
    assert_eq!(collect(execute::with::<NoCache>().stream(0..5, 2, counting)), [2, 2, 1]);
    assert_eq!(calls, 3);
}

/// A function may panic before it returns a future.
#[test]
fn a_panic_before_there_is_a_future_is_retried() {
    let body = |start: usize, end: usize| {
        assert!(end - start <= 2, "{OUT_OF_MEMORY}");
        length(start, end)
    };
    assert_eq!(collect(execute::with::<NoCache>().stream(0..5, 4, body)), [2, 2, 1]);
}

/// Counts as alive until it is dropped.
struct Alive<'a>(&'a Cell<usize>);

impl<'a> Alive<'a> {
    fn new(alive: &'a Cell<usize>) -> Self {
        alive.set(alive.get() + 1);
        Self(alive)
    }
}

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[test]
fn dropped_after_any_poll_nothing_is_lost() {
    let mut ended = false;
    for polls in 0..100 {
        let (world, mut done) = (World::with_limit(4), 0);
        let mut rows = stream(&world, 0..20, 16);
        for _ in 0..polls {
            match poll_once(rows.next()) {
                Poll::Ready(Some(row)) => done = row.unwrap().end,
                Poll::Ready(None) => ended = true,
                Poll::Pending => {}
            }
        }
        let tried = world.tried();
        drop(rows);
        assert_eq!((world.alive.get(), world.tried()), (0, tried));
        assert_eq!(world.settled(), (done > 0).then_some(4), "after {polls} polls");
        let rest: Vec<_> = collect(stream(&world, done..20, 16)).into_iter().map(Result::unwrap).collect();
        assert!(rest.iter().all(|row| row.len() == 4), "the next call starts where this one settled");
        assert_eq!(done + 4 * rest.len(), 20);
    }
    assert!(ended);
}

/// Counts how often it is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn it_waits_to_be_asked() {
    let (world, woken) = (World::with_limit(4), Arc::new(Wakes::default()));
    let waker = Waker::from(Arc::clone(&woken));
    let mut rows = execute::with::<NoCache>().stream(0..16, 4, async |start, end| world.attempt(start, end));
    for taken in 1..=4 {
        let next = pin!(rows.next()).poll(&mut Context::from_waker(&waker));
        assert!(matches!(next, Poll::Ready(Some(Ok(_)))));
        assert_eq!(world.tried(), taken, "nothing runs ahead");
    }
    assert_eq!(woken.0.load(Relaxed), 0, "a value that was not asked for is nothing to wake up for");
}

#[test]
fn it_is_send_when_the_body_is() {
    fn send<T: Send>(value: T) -> T {
        value
    }
    let texts = [String::from("a"), String::from("b"), String::from("c")];
    let texts = &texts;
    let mut rows =
        send(execute::with::<NoCache>().key("key").by_cost(|i| texts[i].len()).before_retry(|_| ()).stream(
            0..3,
            2,
            async move |start, end| {
                let held = &texts[start..end];
                yield_now().await;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(held.concat())
            },
        ));
    let all = async move {
        let mut all = Vec::new();
        while let Some(row) = rows.next().await {
            all.push(row.unwrap());
        }
        all
    };
    let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
    assert_eq!(runtime.block_on(send(all)), ["ab", "c"]);
}

#[test]
fn its_items_need_not_be_send() {
    let rows = collect(execute::with::<NoCache>().stream(0..3, 2, async |start, _| {
        pause().await;
        Ok::<_, OutOfMemory>(Rc::new(start))
    }));
    assert_eq!(rows, [Ok(Rc::new(0)), Ok(Rc::new(2))]);
}

#[cfg(feature = "stream")]
#[test]
fn it_is_a_stream_of_futures() {
    use futures_core::{FusedStream, Stream as _};

    let world = World::with_limit(4);
    let mut rows = pin!(stream(&world, 0..8, 8));
    assert!(!rows.is_terminated());
    let mut taken = Vec::new();
    loop {
        match rows.as_mut().poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(row)) => taken.push(row.unwrap()),
            Poll::Ready(None) => break,
            Poll::Pending => {}
        }
    }
    assert_eq!(taken, [0..4, 4..8]);
    assert!(rows.is_terminated());
}
