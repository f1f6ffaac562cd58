//! What must not hang: deadlines, cancellation, panics, destructors.

use std::cell::Cell;
use std::env;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use toma::classify::OutOfMemory;
use toma::device::Cancel;
use toma::device::Ladder;
use toma::observe::{Event, EventKind, Reason};
use toma::policy::Evidence;
use toma::testing::{FakeDevice, FakeOutOfMemory, StoppedClock};
use toma::thread_state::would_retry_out_of_memory;
use toma::{NoCache, Policy, execute, report};

use crate::kit::{Other, Watching, must_end, patient};

fn gave_up() -> (usize, Option<Reason>) {
    let report = report::last().unwrap();
    (report.attempts, report.gave_up)
}

#[test]
fn a_deadline_ends_a_wait() {
    must_end(|| {
        let device = FakeDevice::new(100);
        let other = Other::on(&device, 60);
        let second = Duration::from_secs(1);
        let passes = |event: &Event<'_>| {
            if let EventKind::Waits { .. } = event.kind {
                CLOCK.with(|clock| clock.advance(second));
            }
        };
        CLOCK.with(|_stopped| ());
        let with = execute::with::<NoCache>().device(&device).ladder(patient()).observer(&passes);
        let with = with.deadline(second);
        let error = with.batch(8, |size| device.alloc(10 * size as u64).map(drop)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "fake device out of memory: tried to allocate 80 bytes, 40 of 100 free"
        );
        assert_eq!(gave_up(), (2, Some(Reason::Deadline)));
        other.end();
    });
}

#[test]
fn the_bound_ends_a_wait_and_the_piece_waits_no_more() {
    must_end(|| {
        let device = FakeDevice::new(100);
        let (other, seen) = (Other::on(&device, 60), Watching::default());
        let hasty = Ladder::default().wait(Duration::from_millis(1));
        let with = execute::with::<NoCache>().device(&device).ladder(hasty).observer(&seen);
        assert_eq!(with.batch(32, |size| device.alloc(10 * size as u64).map(|_| size)).unwrap(), 4);
        other.end();
        let waits = ["again 32: alone", "waits with 32, others: 1", "waited, alone: false"];
        let shrinks = ["shrinks from 32 to 16", "shrinks from 16 to 8", "shrinks from 8 to 4"];
        assert_eq!(seen.events(), [waits, shrinks].concat());
    });
}

/// Goes on with 2 items, whatever failed.
#[derive(Debug)]
struct Undaunted;

impl Policy for Undaunted {
    fn shrink(&self, _: &Evidence) -> usize {
        1
    }

    fn advance(&self, _: &Evidence) -> usize {
        2
    }
}

thread_local! {
    /// For an observer, too.
    static CLOCK: StoppedClock = StoppedClock::new();
}

/// The pieces of a call at which it waits in vain; at others it shrinks. So long lasts each wait, and each
/// piece.
fn waits_in_vain(wait: Duration, piece: Duration) -> Vec<usize> {
    let (device, pieces, waits) = (FakeDevice::new(100), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let pass = |time| CLOCK.with(|clock| clock.advance(time));
    let seen = |event: &Event<'_>| {
        if let EventKind::Waits { .. } = event.kind {
            waits.lock().unwrap().push(pieces.load(Relaxed));
            pass(wait);
        }
    };
    let other = Other::on(&device, 60);
    let ladder = Ladder::default().wait(Duration::from_millis(1));
    let with = execute::with::<NoCache>().device(&device).ladder(ladder).policy(Undaunted).observer(&seen);
    with.range(0..40, 2, |start, end| {
        let _needed = device.alloc(25 * (end - start) as u64)?;
        pass(piece);
        pieces.fetch_add(1, Relaxed);
        Ok::<_, FakeOutOfMemory>(())
    })
    .unwrap();
    other.end();
    waits.into_inner().unwrap()
}

#[test]
fn a_call_that_has_waited_in_vain_waits_again_later() {
    must_end(|| {
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(100));
        assert_eq!(waits_in_vain(short, long), [0, 1, 3, 7, 15, 31]);
        // Ten times what was lost must have passed.
        assert_eq!(waits_in_vain(long, long), [0, 9, 18, 27, 36]);
        assert_eq!(waits_in_vain(long, Duration::ZERO), [0]);
    });
}

/// Of batches one after another, each of which could only be done alone: those that wait in vain.
fn batches_that_wait(device: &FakeDevice, batches: usize, wait: Duration, piece: Duration) -> Vec<usize> {
    let (batch, waits) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let pass = |time| CLOCK.with(|clock| clock.advance(time));
    let seen = |event: &Event<'_>| {
        if let EventKind::Waits { .. } = event.kind {
            waits.lock().unwrap().push(batch.load(Relaxed));
            pass(wait);
        }
    };
    let ladder = Ladder::default().wait(Duration::from_millis(1));
    // Stopped from the beginning.
    pass(Duration::ZERO);
    for at in 0..batches {
        batch.store(at, Relaxed);
        let with = execute::with::<NoCache>().device(device).ladder(ladder).observer(&seen);
        with.batch(1, |_| device.alloc(50).map(drop)).unwrap_err();
        pass(piece);
    }
    waits.into_inner().unwrap()
}

/// A batch is a call per step, and none of them knows what the one before it has lost.
#[test]
fn batches_one_after_another_wait_in_vain_no_more_than_one_call_does() {
    must_end(|| {
        let device = FakeDevice::new(100);
        let other = Other::on(&device, 60);
        let second = Duration::from_secs(1);
        assert_eq!(batches_that_wait(&device, 30, second, second), [0, 9, 18, 27]);
        // On another device nothing was lost.
        let neighbor = FakeDevice::new(100);
        let another = Other::on(&neighbor, 60);
        assert_eq!(batches_that_wait(&neighbor, 1, second, second), [0]);
        other.end();
        another.end();
    });
}

#[test]
fn threads_that_wait_in_vain_for_the_same_one_know_of_each_other() {
    must_end(|| {
        let device = FakeDevice::new(100);
        let other = Other::on(&device, 60);
        let hour = Duration::from_secs(3600);
        let waits = || batches_that_wait(&device, 1, hour, Duration::ZERO);
        let elsewhere = || thread::scope(|scope| scope.spawn(waits).join().unwrap());
        assert_eq!(waits(), [0]);
        assert!(elsewhere().is_empty());
        other.end();
    });
}

#[test]
fn once_those_have_gone_that_were_in_the_way_waiting_comes_back() {
    must_end(|| {
        let device = FakeDevice::new(100);
        let hour = Duration::from_secs(3600);
        for _ in 0..3 {
            let other = Other::on(&device, 60);
            assert_eq!(batches_that_wait(&device, 3, hour, Duration::ZERO), [0]);
            other.end();
        }
        // Somebody else who ends soon is waited for, and so it fits.
        let seen = Watching::for_other(Other::on(&device, 60));
        let with = execute::with::<NoCache>().device(&device).ladder(patient()).observer(&seen);
        with.batch(1, |_| device.alloc(50).map(drop)).unwrap();
        assert!(seen.waited());
    });
}

/// What is inside the attempt in the way does not wait for it, so it may wait for others.
#[test]
fn a_loop_inside_the_one_that_was_in_the_way_waits() {
    must_end(|| {
        let device = FakeDevice::new(100);
        execute::with::<NoCache>().device(&device).batch(1, |_| {
            let _held = device.alloc(40).unwrap();
            let hour = Duration::from_secs(3600);
            let lost = || {
                let waits = || {
                    let _held = device.alloc(20).unwrap();
                    batches_that_wait(&device, 2, hour, Duration::ZERO)
                };
                thread::scope(|scope| scope.spawn(waits).join().unwrap())
            };
            assert_eq!(lost(), [0]);
            assert!(lost().is_empty());
            let seen = Watching::for_other(Other::on(&device, 30));
            let with = execute::with::<NoCache>().device(&device).ladder(patient()).observer(&seen);
            with.batch(1, |_| device.alloc(50).map(drop)).unwrap();
            assert!(seen.waited());
        });
    });
}

#[test]
fn cancelling_ends_a_wait_and_starts_no_retry() {
    must_end(|| {
        let (device, cancel) = (FakeDevice::new(100), Cancel::new());
        let other = Other::on(&device, 60);
        let (waits, waiting) = channel::<()>();
        let canceller = {
            let cancel = cancel.clone();
            thread::spawn(move || {
                waiting.recv().unwrap();
                cancel.cancel();
            })
        };
        let seen = |event: &Event<'_>| {
            if let EventKind::Waits { .. } = event.kind {
                waits.send(()).unwrap();
            }
        };
        let call = |observer: &dyn toma::observe::Observer| {
            let ladder = patient().cancelled_by(&cancel);
            let with = execute::with::<NoCache>().device(&device).ladder(ladder).observer(observer);
            with.batch(8, |size| {
                // The body's panics are printed when nothing more will be tried.
                assert_eq!(would_retry_out_of_memory(), !cancel.is_cancelled());
                device.alloc(10 * size as u64).map(drop)
            })
            .unwrap_err();
            gave_up()
        };
        assert_eq!(call(&sync(seen)), (2, Some(Reason::Cancelled)));
        canceller.join().unwrap();
        assert_eq!(call(&Watching::default()), (1, Some(Reason::Cancelled)), "it was cancelled before");
        other.end();
    });
}

/// An observer that is told on one thread only.
fn sync(observe: impl Fn(&Event<'_>) + Send) -> impl toma::observe::Observer {
    let observe = Mutex::new(observe);
    move |event: &Event<'_>| observe.lock().unwrap()(event)
}

/// Nobody runs or waits on the device any more.
fn is_left(device: &FakeDevice) -> bool {
    let (seen, mut fails) = (Watching::default(), true);
    let with = execute::with::<NoCache>().device(device).observer(&seen).ladder(patient());
    let fail = |_| if std::mem::take(&mut fails) { Err(OutOfMemory::new(None)) } else { Ok(()) };
    with.batch(2, fail).unwrap();
    !seen.waited()
}

#[test]
fn a_panic_in_a_chain_that_has_waited_leaves_all_devices() {
    must_end(|| {
        let devices = [FakeDevice::new(100), FakeDevice::new(100)];
        let seen = Watching::for_other(Other::on(&devices[1], 60));
        let call = AssertUnwindSafe(|| {
            execute::with::<NoCache>().device(&devices[0]).ladder(patient()).batch(4, |_| {
                let inner = execute::with::<NoCache>().device(&devices[1]).ladder(patient()).observer(&seen);
                inner.batch(8, |size| {
                    let fits = devices[1].alloc(10 * size as u64).is_ok();
                    assert!(!fits, "it is alone now");
                    Err::<(), _>(OutOfMemory::new(None))
                })
            })
        });
        let panic = catch_unwind(call).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"it is alone now"));
        assert!(seen.waited() && devices.iter().all(is_left));
    });
}

/// A value whose destructor runs a loop on the device, which has to shrink.
#[derive(Debug)]
struct Flushes<'a> {
    device: &'a FakeDevice,
    waited: &'a Cell<Option<bool>>,
}

impl Drop for Flushes<'_> {
    fn drop(&mut self) {
        let seen = Watching::default();
        let with = execute::with::<NoCache>().device(self.device).observer(&seen).ladder(patient());
        with.range(0..8, 8, |start, end| self.device.alloc(20 * (end - start) as u64).map(drop)).unwrap();
        assert_eq!(seen.events().last().unwrap(), "shrinks from 8 to 4");
        self.waited.set(Some(seen.waited()));
    }
}

#[test]
fn a_loop_in_a_destructor_does_not_wait_for_the_attempt_it_belongs_to() {
    must_end(|| {
        let device = FakeDevice::new(100);
        let waited = Cell::new(None);
        let flushes = || Flushes { device: &device, waited: &waited };
        // Of a value in the body, of one that a panic unwinds, of one that comes out with the error.
        execute::with::<NoCache>().device(&device).batch(4, |_| drop(flushes()));
        assert_eq!(waited.take(), Some(false));
        execute::with::<NoCache>().device(&device).batch(4, |size| {
            let _flushes = flushes();
            assert!(size < 4, "CUDA out of memory. Tried to allocate 2.00 GiB");
        });
        assert_eq!(waited.take(), Some(false));
        let with = execute::with::<NoCache>()
            .device(&device)
            .classify(|_: &Flushes<'_>| toma::classify::Class::OutOfMemory);
        with.batch(4, |size| if size == 4 { Err(flushes()) } else { Ok(()) }).unwrap();
        assert_eq!(waited.take(), Some(false));
    });
}

#[test]
fn a_loop_in_a_destructor_of_a_dropped_future_does_not_wait_for_its_attempt() {
    #[toma::batch(initial = 4, cache = NoCache, device = flushes.device)]
    async fn waits_for_ever(size: usize, flushes: &Flushes<'_>) {
        let &Flushes { device, waited } = flushes;
        let _flushes = Flushes { device, waited };
        std::future::poll_fn(|_| Poll::<()>::Pending).await;
        assert_eq!(size, 4);
    }
    must_end(|| {
        let (device, waited) = (FakeDevice::new(100), Cell::new(None));
        let flushes = ManuallyDrop::new(Flushes { device: &device, waited: &waited });
        let mut future = Box::pin(waits_for_ever(&flushes));
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(future);
        assert_eq!(waited.take(), Some(false));
    });
}

#[test]
fn a_loop_in_before_retry_does_not_wait_for_the_attempt_it_belongs_to() {
    must_end(|| {
        let device = FakeDevice::new(100);
        let waited = Cell::new(None);
        let with = execute::with::<NoCache>().device(&device);
        let undo = |_| drop(Flushes { device: &device, waited: &waited });
        with.before_retry(undo).batch(4, |size| device.alloc(30 * size as u64).map(drop)).unwrap();
        assert_eq!(waited.take(), Some(false));
    });
}

#[test]
fn with_toma_disable_nobody_waits() {
    const NAME: &str = "stuck::with_toma_disable_nobody_waits";
    if env::var_os("TOMA_DISABLE").is_none() {
        let mut child = Command::new(env::current_exe().unwrap());
        let output = child.args(["--exact", NAME]).env("TOMA_DISABLE", "1").output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    must_end(|| {
        let device = FakeDevice::new(100);
        let (other, seen) = (Other::on(&device, 60), Watching::default());
        let ladder = patient().fallback(true);
        let with = execute::with::<NoCache>().device(&device).ladder(ladder).observer(&seen);
        let error = with.batch(8, |size| device.alloc(10 * size as u64).map(drop));
        assert!(error.is_err());
        assert_eq!(seen.events(), ["gave up at 8: TOMA_DISABLE is set"]);
        other.end();
    });
}
