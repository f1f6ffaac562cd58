//! Tasks that wait for their turn without blocking the thread, and that are dropped at any time.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::Poll;
use std::thread;

use toma::device::Ladder;
use toma::testing::{FakeDevice, FakeOutOfMemory};
use toma::{NoCache, execute};

use crate::device::kit::{Other, Watching, alloc, exclusive_again, is_free, must_end, patient};
use crate::executor::{block_on_wakes as block_on, poll};

#[toma::range(initial = 8, cache = NoCache, device = device, ladder = patient(), observer = seen)]
async fn annotated(
    start: usize,
    end: usize,
    device: &FakeDevice,
    seen: &Watching,
) -> Result<(), FakeOutOfMemory> {
    alloc(device, 10 * (end - start))
}

/// Holds 60 bytes until `end` is set.
#[toma::batch(initial = 1, cache = NoCache, device = device)]
async fn holds(size: usize, device: &FakeDevice, end: &AtomicBool) -> Result<(), FakeOutOfMemory> {
    let _held = device.alloc(60 * size as u64)?;
    poll_fn(|_| if end.load(SeqCst) { Poll::Ready(()) } else { Poll::Pending }).await;
    Ok(())
}

/// Returns true if the future is ready within ten polls, without a wake.
pub(crate) fn poll_often<F: Future>(mut future: Pin<&mut F>) -> bool {
    (0..10).any(|_| poll(future.as_mut()).is_ready())
}

#[test]
fn a_task_and_a_stream_wait_and_are_exclusive_then() {
    let _must_end = must_end();
    let device = FakeDevice::new(100);
    let seen = Watching::for_other(Other::on(&device, 60));
    block_on(annotated(0, 16, &device, &seen)).unwrap();
    assert_eq!(seen.take()[..3], exclusive_again(8, 1));

    let seen = Watching::for_other(Other::on(&device, 60));
    let with = execute::with::<NoCache>().device(&device).observer(&seen).ladder(patient());
    let mut rows =
        with.stream(0..16, 8, async |start, end| alloc(&device, 10 * (end - start)).map(|()| end - start));
    let mut sizes = Vec::new();
    while let Some(size) = block_on(rows.next()) {
        sizes.push(size.unwrap());
    }
    assert_eq!(sizes, [8, 8]);
    assert_eq!(seen.take()[..3], exclusive_again(8, 1));
}

#[test]
fn a_task_is_woken_when_the_other_ends() {
    let _must_end = must_end();
    let device = FakeDevice::new(100);
    let (other, seen) = (Other::on(&device, 60), Watching::default());
    let mut future = Box::pin(annotated(0, 8, &device, &seen));
    assert!(!poll_often(future.as_mut()));
    let ends = thread::spawn(move || other.end());
    block_on(future).unwrap();
    ends.join().unwrap();
    assert_eq!(seen.take(), exclusive_again(8, 1));
}

#[test]
fn a_dropped_grant() {
    let _must_end = must_end();
    let (device, seen) = (FakeDevice::new(100), Watching::default());
    let other = Other::on(&device, 60);
    let [mut granted, mut next] = [(); 2].map(|()| Box::pin(annotated(0, 8, &device, &seen)));
    assert!(!poll_often(granted.as_mut()) && !poll_often(next.as_mut()));
    other.end();
    // The turn of the task has begun, and the task never learns of it.
    assert!(!poll_often(next.as_mut()));
    drop(granted);
    block_on(next).unwrap();
    assert!(is_free(&device));
}

/// The loop would wait for a task that its own thread has to poll. Under a promise the loop gives way instead, and the
/// task waits.
#[test]
fn a_loop_that_blocks_in_a_task_does_not_wait() {
    #[toma::batch(initial = 1, cache = NoCache, device = device, ladder = ladder)]
    async fn blocks(
        size: usize,
        device: &FakeDevice,
        ladder: Ladder<'_>,
        seen: &Watching,
    ) -> Result<usize, FakeOutOfMemory> {
        let with = execute::with::<NoCache>().device(device).ladder(patient()).observer(seen);
        with.batch(8, |batch| device.alloc(10 * (size * batch) as u64).map(|_| batch))
    }
    #[toma::batch(initial = 1, cache = NoCache)]
    async fn blocks_outside(
        size: usize,
        device: &FakeDevice,
        seen: &Watching,
    ) -> Result<usize, FakeOutOfMemory> {
        let with = execute::with::<NoCache>().device(device).ladder(patient()).observer(seen);
        with.batch(8, |batch| device.alloc(10 * (size * batch) as u64).map(|_| batch))
    }
    let _must_end = must_end();
    let (device, end, seen) = (FakeDevice::new(100), AtomicBool::new(false), Watching::default());
    let mut held = pin!(holds(&device, &end));
    assert!(!poll_often(held.as_mut()));
    assert_eq!(block_on(blocks(&device, patient().without_waiting(), &seen)).unwrap(), 4);
    assert_eq!(block_on(blocks_outside(&device, &seen)).unwrap(), 4);
    assert_eq!(seen.take(), ["at 8: shrinks to 4"; 2]);
    let mut waits = pin!(blocks(&device, patient(), &seen));
    assert!(!poll_often(waits.as_mut()));
    end.store(true, SeqCst);
    assert!(poll_often(held.as_mut()));
    assert_eq!(block_on(waits), Ok(8));
}
