//! How waits end, which waits are in vain, and protection against hangs: deadlines, cancellation, panics, destructors.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use toma::classify::Class;
use toma::device::{Cancel, Ladder};
use toma::observe::{Event, EventKind, Observer, Reason};
use toma::policy::Evidence;
use toma::policy::Policy;
use toma::testing::{FakeDevice, FakeOutOfMemory, StoppedClock};
use toma::{NoCache, execute, report};
use toma_core::thread_state::would_retry_out_of_memory;

use crate::child;
use crate::device::kit::{Other, Watching, alloc, is_free, must_end, must_wait, patient};
use crate::executor::poll;

/// Bound of waits that are in vain.
const BOUND: Duration = Duration::from_millis(1);

fn hasty() -> Ladder<'static> {
    Ladder::default().wait(BOUND)
}

fn gave_up() -> (usize, Option<Reason>) {
    let report = report::last().unwrap();
    (report.attempts, report.gave_up)
}

#[test]
fn cancelling_ends_a_wait_and_starts_no_retry() {
    /// Cancels from another thread as soon as the call waits.
    struct Cancels(Cancel);

    impl Observer for Cancels {
        fn observe(&self, event: &Event<'_>) {
            if let EventKind::Waits { .. } = event.kind {
                let cancel = self.0.clone();
                thread::spawn(move || cancel.cancel());
            }
        }
    }

    let _must_end = must_end();
    let (device, cancels) = (FakeDevice::new(100), Cancels(Cancel::new()));
    let other = Other::on(&device, 60);
    let call = || {
        let ladder = patient().cancelled_by(&cancels.0);
        let with = execute::with::<NoCache>().device(&device).ladder(ladder).observer(&cancels);
        with.batch(8, |size| {
            // Panics of the body are printed once nothing more will be tried.
            assert_eq!(would_retry_out_of_memory(), !cancels.0.is_cancelled());
            alloc(&device, 10 * size)
        })
        .unwrap_err();
        gave_up()
    };
    assert_eq!(call(), (2, Some(Reason::Cancelled)));
    assert_eq!(call(), (1, Some(Reason::Cancelled)), "it was cancelled before");
    other.end();
    assert!(is_free(&device));
}

/// Makes calls one after another, each of which takes `lasts` and fits only with the device to itself. Returns the
/// indices of the calls that wait.
fn calls_that_wait(clock: &StoppedClock, device: &FakeDevice, calls: usize, lasts: Duration) -> Vec<usize> {
    let (call, waits) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let seen = |event: &Event<'_>| {
        if let EventKind::Waits { .. } = event.kind {
            waits.lock().unwrap().push(call.load(Relaxed));
        }
    };
    for at in 0..calls {
        clock.advance(if at > 0 { lasts } else { Duration::ZERO });
        call.store(at, Relaxed);
        let with = execute::with::<NoCache>().device(device).ladder(hasty()).observer(&seen);
        with.batch(1, |_| alloc(device, 50)).unwrap_err();
    }
    waits.into_inner().unwrap()
}

/// The device is not waited for during ten times the bound, whichever call of whichever thread waited.
#[test]
fn after_a_wait_in_vain_the_device_is_not_waited_for() {
    let _must_end = must_end();
    let clock = StoppedClock::new();
    let [device, neighbor] = [(); 2].map(|()| FakeDevice::new(100));
    let others = [&device, &neighbor].map(|device| Other::on(device, 60));
    assert_eq!(calls_that_wait(&clock, &device, 35, BOUND), [0, 10, 20, 30]);
    // The pause holds for this device only, but for all threads.
    assert_eq!(calls_that_wait(&clock, &neighbor, 1, BOUND), [0]);
    let elsewhere = || calls_that_wait(&StoppedClock::new(), &neighbor, 1, BOUND);
    assert!(thread::scope(|scope| scope.spawn(elsewhere).join().unwrap()).is_empty());
    others.into_iter().for_each(Other::end);
}

/// A policy that goes on with 2 items after every failure.
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

/// The pieces of a range wait in vain as seldom as separate calls do.
#[test]
fn pieces_wait_in_vain_as_seldom() {
    let _must_end = must_end();
    let device = FakeDevice::new(100);
    let (other, waits) = (Other::on(&device, 60), Mutex::new(Vec::new()));
    let at = AtomicUsize::new(0);
    let seen = |event: &Event<'_>| match event.kind {
        EventKind::Attempt { start, .. } => at.store(start, Relaxed),
        EventKind::Waits { .. } => waits.lock().unwrap().push(at.load(Relaxed)),
        _ => {}
    };
    let clock = StoppedClock::new();
    let with = execute::with::<NoCache>().device(&device).ladder(hasty()).observer(&seen);
    with.policy(Undaunted)
        .range(0..35, 2, |start, end| {
            alloc(&device, 25 * (end - start))?;
            clock.advance(BOUND);
            Ok::<_, FakeOutOfMemory>(())
        })
        .unwrap();
    other.end();
    assert_eq!(waits.into_inner().unwrap(), [0, 10, 20, 30]);
}

#[test]
fn a_panic_while_exclusive() {
    let _must_end = must_end();
    let device = FakeDevice::new(100);
    let seen = Watching::for_other(Other::on(&device, 60));
    let mut tries = 0;
    let call = AssertUnwindSafe(|| {
        execute::with::<NoCache>().device(&device).ladder(patient()).observer(&seen).batch(8, |size| {
            tries += 1;
            assert!(tries == 1 || !must_wait(&device), "it is exclusive");
            alloc(&device, 10 * size)
        })
    });
    let panic = catch_unwind(call).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"it is exclusive"));
    assert!(is_free(&device));
}

/// A value whose destructor runs a loop on the device, which has to shrink.
#[derive(Debug)]
struct Flushes<'a> {
    device: &'a FakeDevice,
    recorded: &'a RefCell<Vec<String>>,
}

impl Drop for Flushes<'_> {
    fn drop(&mut self) {
        let seen = Watching::default();
        let with = execute::with::<NoCache>().device(self.device).observer(&seen).ladder(patient());
        with.range(0..8, 8, |start, end| alloc(self.device, 20 * (end - start))).unwrap();
        self.recorded.replace(seen.take());
    }
}

/// The destructors of a value in the body, of one that a panic unwinds, of one that comes out with the error, of one in
/// `before_retry`, and of one in a future that is dropped.
#[test]
fn a_loop_in_a_destructor_does_not_wait_for_the_attempt_it_belongs_to() {
    #[toma::batch(initial = 4, cache = NoCache, device = flushes.device)]
    async fn waits_for_ever(size: usize, flushes: &Flushes<'_>) {
        let &Flushes { device, recorded } = flushes;
        let _flushes = Flushes { device, recorded };
        std::future::poll_fn(|_| Poll::<()>::Pending).await;
        assert_eq!(size, 4);
    }
    let _must_end = must_end();
    let (device, recorded) = (FakeDevice::new(100), RefCell::default());
    let flushes = || Flushes { device: &device, recorded: &recorded };
    let form = || execute::with::<NoCache>().device(&device);
    let check = || assert_eq!(recorded.take(), ["at 8: shrinks to 4"]);
    form().batch(4, |_| drop(flushes()));
    check();
    form().batch(4, |size| {
        let _flushes = flushes();
        assert!(size < 4, "CUDA out of memory. Tried to allocate 2.00 GiB");
    });
    check();
    let with = form().classify(|_: &Flushes<'_>| Class::OutOfMemory);
    with.batch(4, |size| if size == 4 { Err(flushes()) } else { Ok(()) }).unwrap();
    check();
    form().before_retry(|_| drop(flushes())).batch(4, |size| alloc(&device, 30 * size)).unwrap();
    check();
    let kept = ManuallyDrop::new(flushes());
    let mut future = Box::pin(waits_for_ever(&kept));
    assert!(poll(future.as_mut()).is_pending());
    drop(future);
    check();
    assert!(is_free(&device));
}

#[test]
fn with_toma_disable_no_call_waits() {
    let test = "device::waits::with_toma_disable_no_call_waits";
    if let Some(ended) = child::run(test, &[("TOMA_DISABLE", "1")]) {
        ended.passed();
        return;
    }
    let _must_end = must_end();
    let device = FakeDevice::new(100);
    let (other, seen) = (Other::on(&device, 60), Watching::default());
    let with = execute::with::<NoCache>().device(&device).ladder(patient().fallback(true)).observer(&seen);
    with.batch(8, |size| alloc(&device, 10 * size)).unwrap_err();
    assert_eq!(seen.take(), ["at 8: gives up: TOMA_DISABLE is set"]);
    other.end();
}
