//! Loops on the device in hooks and observers, while their call holds a turn or waits for one.

use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use toma::device::{on_release, reserve_async};
use toma::observe::{Event, EventKind, Observer};
use toma::testing::{FakeDevice, FakeOutOfMemory};
use toma::{NoCache, execute};

use crate::child;
use crate::device::kit::{Other, PATIENT, Watching, alloc, is_free, must_end, patient};
use crate::executor::{block_on_wakes as block_on, poll};

/// Runs a loop on the device and returns true if it waits.
fn loop_waits(device: &FakeDevice) -> bool {
    let seen = Watching::default();
    execute::with::<NoCache>().device(device).observer(&seen).range(0..4, 2, |_, _| ());
    seen.has_waited()
}

/// Ends the other attempt at the first wait, and runs a loop on the device at each event.
struct Loops<'a> {
    device: &'a FakeDevice,
    ends_other: Watching,
    /// Events received; true if the loop waited at that event.
    recorded: Mutex<Vec<(String, bool)>>,
}

impl<'a> Loops<'a> {
    fn on(device: &'a FakeDevice) -> Self {
        let ends_other = Watching::for_other(Other::on(device, 60));
        Self { device, ends_other, recorded: Mutex::default() }
    }

    /// Asserts that these events were received, and that no loop waited at any event.
    #[track_caller]
    fn check(self, events: &[&str]) {
        let recorded = self.recorded.into_inner().unwrap();
        assert!(
            events.iter().all(|event| recorded.iter().any(|(recorded, _)| recorded == event)),
            "{recorded:?}"
        );
        assert!(recorded.iter().all(|&(_, waits)| !waits), "{recorded:?}");
    }
}

impl Observer for Loops<'_> {
    fn observe(&self, event: &Event<'_>) {
        self.ends_other.observe(event);
        let kind = format!("{:?}", event.kind);
        let kind = kind.split([' ', '{']).next().unwrap().to_owned();
        let waits = loop_waits(self.device);
        self.recorded.lock().unwrap().push((kind, waits));
    }
}

impl Observer for &Loops<'_> {
    fn observe(&self, event: &Event<'_>) {
        (**self).observe(event);
    }
}

const ALL: [&str; 8] =
    ["Started", "Attempt", "Failed", "Answered", "Waits", "Waited", "Succeeded", "Finished"];

#[test]
fn a_loop_in_an_observer_does_not_wait_for_its_own_call() {
    let _must_end = must_end();
    let device = FakeDevice::new(100);
    let loops = Loops::on(&device);
    let with = execute::with::<NoCache>().device(&device).ladder(patient()).observer(&loops);
    with.range(0..16, 16, |start, end| alloc(&device, 10 * (end - start) + 15)).unwrap();
    loops.check(&ALL);
    assert!(is_free(&device));
}

#[toma::range(initial = 8, cache = NoCache, device = device, ladder = patient(), observer = loops)]
async fn task(
    start: usize,
    end: usize,
    device: &FakeDevice,
    loops: &Loops<'_>,
) -> Result<(), FakeOutOfMemory> {
    alloc(device, 10 * (end - start) + 25)
}

#[test]
fn a_loop_in_an_observer_of_a_task_does_not_wait_for_it() {
    let _must_end = must_end();
    let device = FakeDevice::new(100);
    let loops = Loops::on(&device);
    block_on(task(0, 16, &device, &loops)).unwrap();
    loops.check(&ALL);
    assert!(is_free(&device));
}

/// The task is dropped while its entry is in the queue, or while it keeps an exclusive turn.
#[test]
fn a_loop_in_an_observer_of_a_dropped_task_does_not_wait_for_it() {
    let _must_end = must_end();
    for polls in [1, 2] {
        let device = FakeDevice::new(100);
        let loops = Loops::on(&device);
        let mut dropped = Box::pin(task(0, 16, &device, &loops));
        for _ in 0..polls {
            assert!(poll(dropped.as_mut()).is_pending());
        }
        drop(dropped);
        if let Some(other) = loops.ends_other.other.lock().unwrap().take() {
            other.end();
        }
        loops.check(&["Failed", "Answered", "Finished"]);
        assert!(is_free(&device));
    }
}

#[toma::range(initial = 8, cache = NoCache, device = device, ladder = patient(), observer = loops)]
async fn waits_inside(
    start: usize,
    end: usize,
    device: &FakeDevice,
    loops: &Loops<'_>,
) -> Result<(), FakeOutOfMemory> {
    alloc(device, 10 * (end - start))?;
    pending::<()>().await;
    Ok(())
}

/// The task is dropped while its body waits in an exclusive turn.
#[test]
fn a_loop_in_an_observer_of_a_task_dropped_in_its_turn_does_not_wait_for_it() {
    let _must_end = must_end();
    let device = FakeDevice::new(100);
    let loops = Loops::on(&device);
    let mut dropped = Box::pin(waits_inside(0, 8, &device, &loops));
    for _ in 0..3 {
        assert!(poll(dropped.as_mut()).is_pending());
    }
    drop(dropped);
    loops.check(&["Failed", "Answered", "Waits", "Waited", "Finished"]);
    assert!(is_free(&device));
}

/// A wait for bytes would block the call's own entry in the queue.
#[test]
fn an_observer_of_a_wait_reserves_at_once_or_not_at_all() {
    let _must_end = must_end();
    let device = FakeDevice::new(100);
    let (ends_other, polled) = (Watching::for_other(Other::on(&device, 60)), Mutex::new(Vec::new()));
    let observer = |event: &Event<'_>| {
        if matches!(event.kind, EventKind::Waits { .. }) {
            let reserves = pin!(reserve_async(&device, 100, PATIENT));
            polled.lock().unwrap().push(poll(reserves).map(|reserved| reserved.is_ok()));
        }
        ends_other.observe(event);
    };
    let with = execute::with::<NoCache>().device(&device).ladder(patient()).observer(&observer);
    with.range(0..16, 16, |start, end| alloc(&device, 10 * (end - start))).unwrap();
    assert_eq!(polled.lock().unwrap()[0], Poll::Ready(false), "60 of the bytes are not free");
    assert!(is_free(&device));
}

/// Runs in a process of its own, because hooks are process-wide.
#[test]
fn a_loop_in_a_hook_does_not_wait_for_the_call_that_asks() {
    let test = "device::between::a_loop_in_a_hook_does_not_wait_for_the_call_that_asks";
    if let Some(ended) = child::run(test, &[]) {
        ended.passed();
        return;
    }
    let _must_end = must_end();
    let device = FakeDevice::new(100);
    let (waits, asked) = (Arc::new(Mutex::new(Vec::new())), device.clone());
    let recorded = Arc::clone(&waits);
    let _hooked = on_release(move |_| {
        recorded.lock().unwrap().push(loop_waits(&asked));
        false
    });
    let seen = Watching::for_other(Other::on(&device, 60));
    let with = execute::with::<NoCache>().device(&device).ladder(patient()).observer(&seen);
    with.range(0..16, 16, |start, end| alloc(&device, 10 * (end - start))).unwrap();
    assert!(seen.has_waited(), "the hook is asked in an exclusive turn");
    assert_eq!(*waits.lock().unwrap(), [false]);
    assert!(is_free(&device));
}
