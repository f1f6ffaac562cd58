//! Peaks belong to a device: they are not affected by work on another device, nor by a task that has moved elsewhere.

use std::future::Future;
use std::mem;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::thread;

use toma::report::Report;
use toma::testing::{FakeDevice, FakeOutOfMemory};
use toma::{Adaptive, NoCache, execute, report};

use crate::adaptive::world::{BASE, ITEM, Shows, World, bytes};
use crate::executor::{pause, poll};

/// Returns the sizes of a cold run on a device that was used before. Without the peaks of its own attempts, the run
/// would have to find the limit by failing.
fn cold() -> Vec<(usize, bool)> {
    let world = World::new(300, Shows::Everything);
    drop(world.device.alloc(bytes(300)).unwrap());
    let report = world.range(20_000, 4096, Adaptive::default());
    assert!(report.fullest.is_some(), "{report}");
    world.attempts.take()
}

type Task = Pin<Box<dyn Future<Output = Result<(), FakeOutOfMemory>> + Send>>;

type Leave = fn(Task);

/// Starts a task and suspends it in the middle of a measured attempt.
fn begun() -> Task {
    let device = FakeDevice::new(1000);
    let mut task: Task = Box::pin(async move {
        let form = execute::with::<NoCache>().device(&device).policy(Adaptive::default());
        let mut rows = form.stream(0..1, 1, async |_start, _end| {
            pause().await;
            device.alloc(1).map(drop)
        });
        while let Some(row) = pin!(rows.next()).await {
            row?;
        }
        Ok(())
    });
    assert!(poll(task.as_mut()).is_pending());
    task
}

#[test]
fn a_task_that_goes_elsewhere_leaves_its_thread_as_it_was() {
    let ways: [(&str, Leave); 4] = [
        ("finished by another thread", |mut task| {
            thread::spawn(move || assert_eq!(poll(task.as_mut()), Poll::Ready(Ok(())))).join().unwrap();
        }),
        ("dropped by another thread", |task| thread::spawn(|| drop(task)).join().unwrap()),
        ("dropped here", drop),
        ("forgotten", mem::forget),
    ];
    let alone = cold();
    for (way, leave) in ways {
        leave(begun());
        assert_eq!(cold(), alone, "{way}");
    }
}

/// The thread that finishes the task measures an attempt of its own, which is not affected.
#[test]
fn a_task_that_comes_from_elsewhere_changes_nothing() {
    let mut task = thread::spawn(begun).join().unwrap();
    let world = World::new(300, Shows::Everything);
    let report = world.range_with(1, 1, Adaptive::default(), |_, size| {
        drop(world.device.alloc(BASE + size as u64 * ITEM)?);
        assert_eq!(poll(task.as_mut()), Poll::Ready(Ok(())));
        small(&world.device);
        Ok(())
    });
    assert_eq!(report.fullest.unwrap().peak_bytes, BASE + ITEM);
}

/// Runs a measured loop that needs few bytes.
fn small(device: &FakeDevice) -> Report {
    let form = execute::with::<NoCache>().device(device).policy(Adaptive::default());
    form.range(0..4, 1, |_start, _end| device.alloc(1).map(drop)).unwrap();
    report::last().unwrap()
}

#[test]
fn a_loop_on_a_second_device_measures_its_own() {
    let (alone, mut inside) = (cold(), Vec::new());
    let device = FakeDevice::new(1000);
    let form = execute::with::<NoCache>().device(&device).policy(Adaptive::default());
    let result = form.range(0..1, 1, |_start, _end| {
        drop(device.alloc(500)?);
        inside = cold();
        device.alloc(1).map(drop)
    });
    assert_eq!((result, inside), (Ok(()), alone));
    assert_eq!(report::last().unwrap().fullest.unwrap().peak_bytes, 500);
}

/// Code that undoes an attempt is not part of that attempt.
#[test]
fn a_loop_that_undoes_an_attempt_measures_its_own() {
    let (device, mut tries, mut undone) = (FakeDevice::new(1000), 0, Vec::new());
    let form = execute::with::<NoCache>().device(&device).policy(Adaptive::default());
    let form = form.before_retry(|_| undone.push(small(&device).fullest.map(|full| full.peak_bytes)));
    let result = form.range(0..2, 2, |_start, _end| {
        tries += 1;
        drop(device.alloc(900)?);
        device.alloc(if tries == 1 { 2000 } else { 1 }).map(drop)
    });
    assert_eq!((result, undone), (Ok(()), vec![Some(1)]));
}
