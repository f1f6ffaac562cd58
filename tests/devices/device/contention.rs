//! Failures while others use the device: the size is retried with the device to itself, and neighbors cause no
//! shrinking. The rules for when a size is retried, in any order of failures, are tested in `tests/loops/rules`.

use std::cell::Cell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};
use std::thread;

use toma::classify::OutOfMemory;
use toma::device::{Ladder, Rung};
use toma::observe::{Event, EventKind};
use toma::policy::Policy;
use toma::policy::{Evidence, Needs};
use toma::testing::{FakeDevice, FakeOutOfMemory};
use toma::{GlobalCache, NoCache, execute, report};

use crate::device::kit::{
    Other, Watching, alloc, exclusive_again, exclusive_turn, is_free, must_end, must_wait, patient,
};

#[test]
fn loops_that_fit_by_themselves_but_not_together_do_not_shrink() {
    let _must_end = must_end();
    let (device, cache, meet) = (FakeDevice::new(100), GlobalCache::new(), Barrier::new(2));
    let (sizes, waited) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let seen = |event: &Event<'_>| {
        if let EventKind::Waits { .. } = event.kind {
            waited.store(true, Relaxed);
        }
    };
    let work = || {
        let (mut first, mut done) = (true, Vec::new());
        let with = execute::with::<NoCache>().cache(&cache).device(&device).ladder(patient());
        let result = with.observer(&seen).range(0..640, 8, |start, end| {
            let held = device.alloc(8 * (end - start) as u64);
            if mem::take(&mut first) {
                meet.wait();
                // One of the two has no room and must see the other at work.
                while held.is_ok() && !waited.load(Relaxed) {
                    thread::yield_now();
                }
            }
            sizes.lock().unwrap().push(end - start);
            drop(held?);
            done.extend(start..end);
            Ok::<_, FakeOutOfMemory>(())
        });
        (result, done, report::last().unwrap())
    };
    let ends =
        thread::scope(|scope| [scope.spawn(work), scope.spawn(work)].map(|thread| thread.join().unwrap()));
    for (result, done, report) in &ends {
        assert!(result.is_ok() && report.settled.is_none());
        assert_eq!(*done, (0..640).collect::<Vec<_>>());
    }
    assert!(ends.iter().any(|(.., report)| report.out_of_memory > 0), "they met");
    assert!(sizes.into_inner().unwrap().iter().all(|&size| size == 8));
    assert!(cache.entries().is_empty(), "no shrink is remembered");
}

/// Tests with smaller sizes left and without.
#[test]
fn a_failure_under_contention_is_repeated_exclusively() {
    let _must_end = must_end();
    for floor in [1, 8] {
        let device = FakeDevice::new(100);
        let seen = Watching::for_other(Other::on(&device, 60));
        let with = execute::with::<NoCache>().device(&device).observer(&seen).min(floor);
        with.ladder(patient()).batch(8, |size| alloc(&device, 10 * size)).unwrap();
        assert_eq!(seen.take(), exclusive_again(8, 1));
        let report = report::last().unwrap();
        assert!(report.attempts == 2 && !report.waited.is_zero());
        let line = report.to_string().lines().find(|line| line.starts_with("  waited ")).unwrap().to_owned();
        assert!(line.ends_with(" for the device"), "{report}");
    }
}

/// Fails to allocate because of another call, which has ended when the failure is classified.
fn fails_beside_another(device: &FakeDevice, bytes: u64) -> FakeOutOfMemory {
    let other = Other::on(device, 60);
    let error = device.alloc(bytes).unwrap_err();
    other.end();
    error
}

/// Lets two calls meet. From now on contention is expected on the device, and panics stay silent because of it.
fn meet(device: &FakeDevice) {
    let other = Other::on(device, 60);
    execute::with::<NoCache>().device(device).batch(1, |_| ());
    other.end();
}

#[test]
fn a_neighbor_that_ends_before_the_failure_is_judged() {
    let _must_end = must_end();
    for panics in [false, true] {
        let (device, seen) = (FakeDevice::new(100), Watching::default());
        if panics {
            meet(&device);
        }
        let mut meets = true;
        let with = execute::with::<NoCache>().device(&device).ladder(patient()).observer(&seen);
        let result = with.range(0..4, 1, |start, _| {
            if start == 2 && mem::take(&mut meets) {
                let error = fails_beside_another(&device, 60);
                if panics { panic_any(OutOfMemory::new(None)) } else { return Err(error) }
            }
            alloc(&device, 60)
        });
        result.unwrap();
        // The next piece queues for an exclusive turn as well.
        assert_eq!(seen.take(), [&exclusive_again(1, 0)[..], &exclusive_turn(1, 0)].concat());
    }
}

/// A panic that was promised a retry goes through once if there was no contention after all.
#[test]
fn a_panic_without_contention_goes_through_although_there_was_contention_before() {
    let _must_end = must_end();
    let (device, tries) = (FakeDevice::new(100), Cell::new(0));
    meet(&device);
    let panic = catch_unwind(AssertUnwindSafe(|| {
        execute::with::<NoCache>().device(&device).ladder(patient()).batch(1, |_| -> () {
            tries.set(tries.get() + 1);
            panic_any(OutOfMemory::new(Some(7)));
        });
    }));
    let error = panic.unwrap_err().downcast::<OutOfMemory>().unwrap();
    assert_eq!((error.requested_bytes(), tries.get()), (Some(7), 1));
}

#[test]
fn without_waiting_and_without_a_device_calls_shrink() {
    let device = FakeDevice::new(100);
    let (other, seen) = (Other::on(&device, 60), Watching::default());
    let form = || execute::with::<NoCache>().observer(&seen);
    let hasty = form().device(&device).ladder(patient().without_waiting());
    assert_eq!(hasty.batch(8, |size| device.alloc(10 * size as u64).map(|_| size)), Ok(4));
    assert_eq!(form().ladder(patient()).batch(8, |size| device.alloc(10 * size as u64).map(|_| size)), Ok(4));
    assert_eq!(seen.take(), ["at 8: shrinks to 4"; 2]);
    other.end();
    // An attempt without a device is not waited for either.
    let with = execute::with::<NoCache>();
    assert!(with.batch(1, |_| is_free(&device)));
}

#[test]
fn an_iterator_waits_as_it_is_asked_and_holds_no_turn_between_values() {
    let _must_end = must_end();
    let (device, seen) = (FakeDevice::new(100), Watching::default());
    let with = execute::with::<NoCache>().device(&device).observer(&seen).ladder(patient());
    let mut rows = with.iter(0..24, 8, |start, end| alloc(&device, 10 * (end - start)).map(|()| start));
    assert_eq!(rows.next().unwrap().unwrap(), 0);
    *seen.other.lock().unwrap() = Some(Other::on(&device, 60));
    assert!(!seen.has_waited());
    assert_eq!(rows.next().unwrap().unwrap(), 8);
    assert!(seen.has_waited());
    assert!(is_free(&device));
    assert_eq!(rows.map(Result::unwrap).collect::<Vec<_>>(), [16]);
}

#[test]
fn an_exclusive_turn_lasts_until_its_piece_is_done_smaller_sizes_included() {
    let _must_end = must_end();
    let device = FakeDevice::new(100);
    let seen = Watching::for_other(Other::on(&device, 60));
    let with = execute::with::<NoCache>().device(&device).observer(&seen).ladder(patient());
    let mut done = Vec::new();
    with.range(0..10, 8, |start, end| {
        alloc(&device, 30 * (end - start))?;
        done.push((start, must_wait(&device)));
        Ok::<_, FakeOutOfMemory>(())
    })
    .unwrap();
    // The piece at 2 has an exclusive turn of its own, and the pieces from 4 on have shared turns.
    assert_eq!(done, [(0, true), (2, true), (4, false), (6, false), (8, false)]);
    let shrinks = ["at 8: shrinks to 4", "at 4: shrinks to 2"].map(str::to_owned);
    assert_eq!(seen.take(), [&exclusive_again(8, 1)[..], &shrinks, &exclusive_turn(2, 0)].concat());
}

/// The next 1, 2, 4 .. pieces after a failure under contention queue; then the call fails under contention again.
#[test]
fn a_call_queues_for_its_next_pieces_once_it_has_failed_under_contention() {
    let _must_end = must_end();
    let (device, seen) = (FakeDevice::new(100), Watching::default());
    let mut failures = Vec::new();
    let with = execute::with::<NoCache>().device(&device).observer(&seen).ladder(patient());
    with.range(0..32, 1, |start, _| {
        // Another call comes whenever the attempt is not exclusive.
        if seen.take().is_empty() {
            *seen.other.lock().unwrap() = Some(Other::on(&device, 60));
            failures.push(start);
        }
        alloc(&device, 60)
    })
    .unwrap();
    assert_eq!(failures, [0, 2, 5, 10, 19]);
}

/// A policy that records the peaks in its evidence.
#[derive(Debug, Default)]
struct Peaks(Mutex<Vec<Option<u64>>>);

impl Policy for Peaks {
    fn shrink(&self, evidence: &Evidence) -> usize {
        evidence.size / 2
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        self.0.lock().unwrap().push(evidence.peak_bytes);
        evidence.step
    }

    fn needs(&self) -> Needs {
        Needs::TIME_AND_MEMORY
    }
}

/// The peak of a device is one figure that includes the bytes of other calls.
#[test]
fn peaks_measured_under_contention_are_no_evidence() {
    let _must_end = must_end();
    let (device, peaks) = (FakeDevice::new(100), Peaks::default());
    let mut others = Vec::new();
    let with = execute::with::<NoCache>().device(&device).policy(&peaks);
    with.range(0..5, 1, |start, _| {
        let _held = device.alloc(10).unwrap();
        match start {
            // The other call comes in the middle of an attempt, stays for one, and goes in the middle of another.
            1 => others.push(Other::on(&device, 20)),
            3 => others.drain(..).for_each(Other::end),
            _ => {}
        }
    });
    assert_eq!(peaks.0.into_inner().unwrap(), [None, Some(10), None, None, None]);
}

#[test]
fn rungs_have_names() {
    let rungs = [Rung::Transient, Rung::Release, Rung::Exclusive, Rung::Hooks];
    assert_eq!(rungs.map(|rung| rung.to_string()), ["transient", "release", "exclusive", "hooks"]);
}

/// The rung is for memory sources whose allocator does not release its cache before it fails.
#[test]
fn the_same_size_is_tried_again_once_cached_memory_is_released() {
    let device = FakeDevice::new(100);
    let cases = [(false, true, vec![4, 2]), (true, true, vec![4, 4, 2]), (true, false, vec![4, 2])];
    for (on, has_device, sizes) in cases {
        let (ladder, mut tried) = (Ladder::default().release_and_retry(on), Vec::new());
        let with = execute::with::<NoCache>().ladder(ladder);
        let with = if has_device { with.device(&device) } else { with };
        with.batch(4, |size| {
            tried.push(size);
            if size > 2 { Err(OutOfMemory::new(None)) } else { Ok(()) }
        })
        .unwrap();
        assert_eq!(tried, sizes);
    }
}
