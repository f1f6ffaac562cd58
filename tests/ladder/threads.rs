//! Real threads on one device.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Barrier, Mutex};
use std::thread;

use toma::observe::{Event, EventKind};
use toma::policy::{Evidence, Needs};
use toma::testing::{FakeDevice, FakeOutOfMemory};
use toma::{GlobalCache, NoCache, Policy, execute, report};

use crate::kit::{Other, Watching, must_end, patient, somebody_waits};

#[test]
fn loops_that_fit_alone_but_not_together_do_not_shrink() {
    must_end(|| {
        let (device, cache, meet) = (FakeDevice::new(100), GlobalCache::new(), Barrier::new(2));
        let (sizes, waited) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        let seen = |event: &Event<'_>| {
            if let EventKind::Waits { .. } = event.kind {
                waited.store(true, Relaxed);
            }
        };
        let work = || {
            let mut first = true;
            let mut done = Vec::new();
            let with = execute::with::<NoCache>().cache(&cache).device(&device).ladder(patient());
            let result = with.observer(&seen).range(0..640, 8, |start, end| {
                let held = device.alloc(8 * (end - start) as u64);
                if std::mem::take(&mut first) {
                    meet.wait();
                    // One of them has no room, and must find the other at work.
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
        let reports = thread::scope(|scope| {
            let threads = [scope.spawn(work), scope.spawn(work)];
            threads.map(|thread| thread.join().unwrap())
        });
        let mut failed = 0;
        for (result, done, report) in reports {
            result.unwrap();
            assert_eq!(done, (0..640).collect::<Vec<_>>());
            assert_eq!(report.settled, None);
            failed += report.out_of_memory;
        }
        assert!(failed > 0, "they met");
        assert!(sizes.into_inner().unwrap().iter().all(|&size| size == 8));
        assert!(cache.entries().is_empty(), "no shrink is remembered");
    });
}

#[test]
fn who_fails_among_others_waits_and_is_alone_then() {
    must_end(|| {
        let device = FakeDevice::new(100);
        let seen = Watching::for_other(Other::on(&device, 60));
        let with = execute::with::<NoCache>().device(&device).observer(&seen).ladder(patient());
        with.batch(8, |size| device.alloc(10 * size as u64).map(drop)).unwrap();
        assert_eq!(seen.events(), ["again 8: alone", "waits with 8, others: 1", "waited, alone: true"]);
        assert_eq!(report::last().unwrap().attempts, 2);
    });
}

#[test]
fn an_iterator_waits_when_it_is_asked() {
    must_end(|| {
        let device = FakeDevice::new(100);
        let seen = Watching::default();
        let with = execute::with::<NoCache>().device(&device).observer(&seen).ladder(patient());
        let mut rows =
            with.iter(0..24, 8, |start, end| device.alloc(10 * (end - start) as u64).map(|_| start));
        assert_eq!(rows.next().unwrap().unwrap(), 0);
        *seen.other.lock().unwrap() = Some(Other::on(&device, 60));
        assert!(!seen.waited());
        assert_eq!(rows.next().unwrap().unwrap(), 8);
        assert!(seen.waited());
        // Between two values it is not in anybody's way.
        let other = Other::on(&device, 100);
        other.end();
        assert_eq!(rows.map(Result::unwrap).collect::<Vec<_>>(), [16]);
    });
}

/// At the floor nothing but waiting is left, and a panic there is not printed, see tests of the rules.
#[test]
fn a_size_that_cannot_shrink_waits_too() {
    must_end(|| {
        let device = FakeDevice::new(100);
        let seen = Watching::for_other(Other::on(&device, 60));
        let with = execute::with::<NoCache>().device(&device).observer(&seen).min(8).ladder(patient());
        with.batch(8, |size| device.alloc(10 * size as u64).map(drop)).unwrap();
        assert!(seen.waited());
    });
}

#[test]
fn who_does_not_want_to_wait_shrinks() {
    let device = FakeDevice::new(100);
    let (other, seen) = (Other::on(&device, 60), Watching::default());
    let ladder = patient().without_waiting();
    let with = execute::with::<NoCache>().device(&device).observer(&seen).ladder(ladder);
    assert_eq!(with.batch(8, |size| device.alloc(10 * size as u64).map(|_| size)).unwrap(), 4);
    other.end();
    assert_eq!(seen.events(), ["shrinks from 8 to 4"]);
}

#[test]
fn a_call_without_a_device_neither_waits_nor_is_waited_for() {
    let device = FakeDevice::new(100);
    let (other, seen) = (Other::on(&device, 60), Watching::default());
    let with = execute::with::<NoCache>().observer(&seen).ladder(patient());
    assert_eq!(with.batch(8, |size| device.alloc(10 * size as u64).map(|_| size)).unwrap(), 4);
    other.end();
    let (unseen, wait) = (AtomicBool::new(false), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            execute::with::<NoCache>().batch(1, |_| {
                wait.wait();
                wait.wait();
            });
        });
        wait.wait();
        let with = execute::with::<NoCache>().device(&device).observer(&seen).ladder(patient());
        with.batch(16, |size| device.alloc(10 * size as u64).map(drop)).unwrap();
        unseen.store(!seen.waited(), Relaxed);
        wait.wait();
    });
    assert!(unseen.into_inner());
}

/// It fails among others once for its next 1, 2, 4 .. pieces.
#[test]
fn a_call_takes_turns_once_it_has_failed_among_others() {
    must_end(|| {
        let device = FakeDevice::new(100);
        let seen = Watching::default();
        let (mut told, mut failures) = (0, Vec::new());
        let with = execute::with::<NoCache>().device(&device).observer(&seen).ladder(patient());
        with.range(0..32, 1, |start, _| {
            // Somebody comes whenever the attempt has not waited to be alone.
            if std::mem::replace(&mut told, seen.events().len()) == seen.events().len() {
                *seen.other.lock().unwrap() = Some(Other::on(&device, 60));
                failures.push(start);
            }
            device.alloc(60).map(drop)
        })
        .unwrap();
        assert_eq!(failures, [0, 2, 5, 10, 19]);
    });
}

#[test]
fn nested_loops_on_one_device_do_not_wait_for_each_other() {
    must_end(|| {
        let (device, done) = (FakeDevice::new(1000), AtomicUsize::new(0));
        let work = |share: u64| {
            let outer = execute::with::<NoCache>().device(&device).ladder(patient());
            outer.range(0..64, 16, |start, end| {
                let _outer = device.alloc(share * (end - start) as u64)?;
                let inner = execute::with::<NoCache>().device(&device).ladder(patient());
                inner.range(start..end, 8, |start, end| {
                    // All of these together do not fit, but each does beside what the outer loops hold.
                    let _inner = device.alloc(20 * share * (end - start) as u64)?;
                    thread::yield_now();
                    Ok::<_, FakeOutOfMemory>(())
                })
            })?;
            done.fetch_add(1, Relaxed);
            Ok::<_, FakeOutOfMemory>(())
        };
        thread::scope(|scope| {
            let threads = [1, 2, 3, 4].map(|share| scope.spawn(move || work(share)));
            for thread in threads {
                thread.join().unwrap().unwrap();
            }
        });
        assert_eq!((done.into_inner(), device.allocated_bytes()), (4, 0));
    });
}

/// Each holds one device and needs the other, which it does not get: neither waits for ever.
#[test]
fn nested_loops_on_two_devices_in_opposite_order_do_not_wait_for_each_other() {
    must_end(|| {
        let (devices, meet) = ([FakeDevice::new(100), FakeDevice::new(100)], Barrier::new(2));
        let work = |first: &FakeDevice, second: &FakeDevice| {
            let outer = execute::with::<NoCache>().device(first).ladder(patient());
            outer.range(0..64, 64, |start, end| {
                let _outer = first.alloc((end - start) as u64)?;
                if end - start == 64 {
                    meet.wait();
                }
                let inner = execute::with::<NoCache>().device(second).ladder(patient());
                inner.range(start..end, 64, |start, end| {
                    let _inner = second.alloc((end - start) as u64)?;
                    Ok::<_, FakeOutOfMemory>(())
                })
            })
        };
        thread::scope(|scope| {
            let [one, other] = &devices;
            let threads = [scope.spawn(|| work(one, other)), scope.spawn(|| work(other, one))];
            for thread in threads {
                thread.join().unwrap().unwrap();
            }
        });
        assert_eq!(devices.map(|device| device.allocated_bytes()), [0, 0]);
    });
}

/// What it is told of peaks.
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

/// The peak of a device is one figure, in which others are counted.
#[test]
fn peaks_measured_among_others_are_no_evidence() {
    must_end(|| {
        let (device, peaks) = (FakeDevice::new(100), Peaks::default());
        let mut others = Vec::new();
        let with = execute::with::<NoCache>().device(&device).policy(&peaks);
        with.range(0..5, 1, |start, _| {
            let _held = device.alloc(10).unwrap();
            match start {
                // It comes in the middle of an attempt, stays for one, and goes in the middle of another.
                1 => others.push(Other::on(&device, 20)),
                3 => others.drain(..).for_each(Other::end),
                _ => {}
            }
        });
        let peaks = peaks.0.into_inner().unwrap();
        assert_eq!(peaks, [None, Some(10), None, None, None]);
    });
}

#[test]
fn the_oldest_goes_first() {
    must_end(|| {
        let device = FakeDevice::new(100);
        let other = Mutex::new(Some(Other::on(&device, 60)));
        let order = Mutex::new(Vec::new());
        let (both_run, (first_waits, told)) = (Barrier::new(2), channel());
        let told = Mutex::new(told);
        thread::scope(|scope| {
            scope.spawn(|| {
                let seen = |event: &Event<'_>| {
                    if let EventKind::Waits { .. } = event.kind {
                        first_waits.send(()).unwrap();
                    }
                };
                let mut fails = true;
                let with = execute::with::<NoCache>().device(&device).ladder(patient()).observer(&seen);
                with.batch(8, |_| attempt(&mut fails, "first", &order, || _ = both_run.wait())).unwrap();
            });
            scope.spawn(|| {
                let mut fails = true;
                let seen = |event: &Event<'_>| {
                    if let (EventKind::Waits { .. }, Some(other)) = (event.kind, other.lock().unwrap().take())
                    {
                        other.end();
                    }
                };
                let with = execute::with::<NoCache>().device(&device).ladder(patient()).observer(&seen);
                let wait = || {
                    both_run.wait();
                    told.lock().unwrap().recv().unwrap();
                    // It has told before it waits.
                    while !somebody_waits(&device) {
                        thread::yield_now();
                    }
                };
                with.batch(8, |_| attempt(&mut fails, "second", &order, wait)).unwrap();
            });
        });
        assert_eq!(order.into_inner().unwrap(), ["first", "second"]);
    });
}

fn attempt(
    fails: &mut bool,
    name: &'static str,
    order: &Mutex<Vec<&'static str>>,
    wait: impl FnOnce(),
) -> Result<(), toma::classify::OutOfMemory> {
    if std::mem::take(fails) {
        wait();
        return Err(toma::classify::OutOfMemory::new(None));
    }
    order.lock().unwrap().push(name);
    Ok(())
}
