//! A call that waits to be asked for its next value holds no turn on its device. A failure of another call meanwhile is
//! due to that call's own size, and is not retried with the device to itself.

use std::cell::RefCell;
use std::future::Future;
use std::mem;
use std::sync::Mutex;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use toma::device::{Ladder, falls_back};
use toma::execute::{self, Stream};
use toma::testing::FakeDevice;
use toma::{GlobalCache, NoCache};

use crate::kit::fits;
use crate::lazy::{block_on, pause, poll_once};

/// Sizes tried where no other attempt runs: a size that fails is tried once.
const BY_ITSELF: [usize; 2] = [4, 2];

/// Sizes tried under contention: a size that fails is tried twice.
const CONTENDED: [usize; 3] = [4, 4, 2];

/// Returns the sizes that a call on another thread tries, the first of which does not fit.
fn tried(device: &FakeDevice) -> Vec<usize> {
    let tried = Mutex::new(Vec::new());
    thread::scope(|scope| {
        scope.spawn(|| {
            // Waits in vain are spaced by ten times the bound: with a bound of 0 every call may wait.
            let ladder = Ladder::default().wait(Duration::ZERO);
            execute::with::<NoCache>().device(device).ladder(ladder).batch(4, |size| {
                tried.lock().unwrap().push(size);
                fits(size, 2)
            })
        });
    });
    tried.into_inner().unwrap()
}

fn iter(device: &FakeDevice) -> impl Iterator<Item = Vec<usize>> {
    execute::with::<NoCache>().device(device).iter(0..4, 2, |_, _| tried(device))
}

fn stream(device: &FakeDevice) -> Stream<Vec<usize>, impl Future<Output = ()> + Send> {
    execute::with::<NoCache>().device(device).stream(0..4, 2, async move |_, _| {
        let before = tried(device);
        pause().await;
        assert_eq!(tried(device), before, "after every await");
        before
    })
}

#[test]
fn beside_an_iterator() {
    let device = FakeDevice::new(100);
    let mut rows = iter(&device);
    assert_eq!(tried(&device), BY_ITSELF, "before it is asked");
    assert_eq!(rows.next().unwrap(), CONTENDED, "in an attempt");
    assert_eq!(tried(&device), BY_ITSELF, "between two values");
    assert_eq!(rows.next().unwrap(), CONTENDED, "when it is asked again");
    assert_eq!(tried(&device), BY_ITSELF, "after the last value");
}

#[test]
fn beside_a_stream() {
    let device = FakeDevice::new(100);
    let mut rows = stream(&device);
    assert_eq!(tried(&device), BY_ITSELF, "before it is asked");
    assert_eq!(block_on(rows.next()).unwrap(), CONTENDED, "in an attempt");
    assert_eq!(tried(&device), BY_ITSELF, "between two values");
    assert!(poll_once(rows.next()).is_pending());
    assert_eq!(
        tried(&device),
        CONTENDED,
        "an attempt that is not polled keeps its turn as it keeps its memory"
    );
    assert_eq!(block_on(rows.next()).unwrap(), CONTENDED, "when it is asked again");
    assert_eq!(tried(&device), BY_ITSELF, "after the last value");
}

/// Between two attempts of one value, the bytes and the turn of the first attempt are given back.
#[test]
fn beside_one_that_tries_again() {
    let (device, seen) = (FakeDevice::new(100), RefCell::new(Vec::new()));
    let form = execute::with::<NoCache>().device(&device);
    let form = form.before_retry(|_| seen.borrow_mut().push(tried(&device)));
    let mut rows = form.stream(0..2, 2, async |start, end| fits(end - start, 1));
    assert!(poll_once(rows.next()).is_pending(), "others run before each retry");
    assert_eq!(seen.take(), [CONTENDED]);
    assert_eq!(tried(&device), BY_ITSELF);
    block_on(rows.next()).unwrap().unwrap();
    assert_eq!(tried(&device), BY_ITSELF);
}

#[test]
fn beside_one_that_is_dropped_or_forgotten() {
    let device = FakeDevice::new(100);
    let mut rows = iter(&device);
    rows.next();
    drop(rows);
    assert_eq!(tried(&device), BY_ITSELF);
    let (mut rows, mut others) = (iter(&device), Box::pin(stream(&device)));
    assert_eq!(rows.next().unwrap(), CONTENDED, "its own attempt");
    assert_eq!(block_on(others.next()).unwrap(), CONTENDED);
    mem::forget((rows, others));
    assert_eq!(tried(&device), BY_ITSELF);
}

#[test]
fn beside_one_that_moves_from_thread_to_thread() {
    let device = FakeDevice::new(100);
    let rows = Mutex::new((iter(&device), stream(&device)));
    for _ in 0..2 {
        thread::scope(|scope| {
            let of_iter = scope.spawn(|| rows.lock().unwrap().0.next().unwrap());
            assert_eq!(of_iter.join().unwrap(), CONTENDED);
        });
        assert_eq!(tried(&device), BY_ITSELF);
        // Each poll runs on another thread, and is pending at the first await.
        let poll = || {
            let mut rows = rows.lock().unwrap();
            poll_once(rows.1.next()).map(Option::unwrap)
        };
        assert!(thread::scope(|scope| scope.spawn(poll).join().unwrap()).is_pending());
        assert_eq!(tried(&device), CONTENDED);
        let of_stream = thread::scope(|scope| scope.spawn(poll).join().unwrap());
        assert_eq!(of_stream, Poll::Ready(CONTENDED.to_vec()));
        assert_eq!(tried(&device), BY_ITSELF);
    }
}

/// Loops over the values of another call, in the same thread.
#[test]
fn a_loop_over_the_values() {
    let device = FakeDevice::new(100);
    for seen in iter(&device) {
        assert_eq!(seen, CONTENDED);
        let sizes = RefCell::new(Vec::new());
        let result = execute::with::<NoCache>().device(&device).batch(4, |size| {
            sizes.borrow_mut().push(size);
            fits(size, 2)
        });
        assert_eq!((result, sizes.take()), (Ok(()), BY_ITSELF.to_vec()));
    }
}

/// A size that fits in another memory is no evidence for the device, also in a call from outside.
#[test]
fn asked_in_a_fallback_it_learns_nothing() {
    for with_ladder in [false, true] {
        let (device, cache) = (FakeDevice::new(100), GlobalCache::new());
        let body = |start: usize, end: usize| fits(end - start, 2);
        let form = execute::with::<NoCache>().cache(&cache);
        let form = if with_ladder { form.device(&device) } else { form };
        let (mut rows, mut others) =
            (form.clone().iter(0..16, 8, body), form.stream(0..16, 8, async |start, end| body(start, end)));
        let ladder = Ladder::default().fallback(true);
        let in_fallback = execute::with::<NoCache>().ladder(ladder).batch(1, |_| {
            fits(1, usize::from(falls_back()))?;
            rows.next().unwrap()?;
            block_on(others.next()).unwrap()
        });
        assert_eq!(in_fallback, Ok(()));
        assert!(rows.all(|row| row.is_ok()));
        while let Some(row) = block_on(others.next()) {
            row.unwrap();
        }
        assert!(cache.entries().is_empty());
    }
}
