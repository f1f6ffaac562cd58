//! Loops inside attempts that give way to others, rather than to go on without an item or elsewhere.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use toma::classify::OutOfMemory;
use toma::device::{Ladder, falls_back};
use toma::observe::{Answer, Event, EventKind, Reason};
use toma::testing::{FakeDevice, FakeOutOfMemory};
use toma::{NoCache, execute};

use crate::kit::{Other, must_end};

/// What inner loops of two threads did that they need not have done.
#[derive(Default)]
struct Done {
    left_out: Mutex<Vec<usize>>,
    elsewhere: AtomicUsize,
    gave_way: AtomicUsize,
}

impl Done {
    fn observe(&self, event: &Event<'_>) {
        if matches!(event.kind, EventKind::Answered { answer: Answer::GiveUp(Reason::GaveWay), .. }) {
            self.gave_way.fetch_add(1, Relaxed);
        }
    }
}

/// Costs of items inside an attempt that holds 40 of 100 bytes: each fits there.
const COSTS: [u64; 3] = [10, 50, 10];

fn leaves_out(device: &FakeDevice, done: &Done) -> Result<(), FakeOutOfMemory> {
    let observer = |event: &Event<'_>| done.observe(event);
    let with = execute::with::<NoCache>().device(device).observer(&observer).by_cost(|item| COSTS[item]);
    let with = with.left_out(|item| done.left_out.lock().unwrap().push(item.index));
    with.range(0..3, 20, |start, end| alloc(device, COSTS[start..end].iter().sum()))
}

fn falls_back_to(device: &FakeDevice, done: &Done) -> Result<(), FakeOutOfMemory> {
    let observer = |event: &Event<'_>| done.observe(event);
    let with = execute::with::<NoCache>().device(device).observer(&observer);
    with.ladder(Ladder::default().fallback(true)).range(0..3, 1, |_, _| {
        if falls_back() {
            done.elsewhere.fetch_add(1, Relaxed);
            return Ok(());
        }
        alloc(device, 50)
    })
}

fn alloc(device: &FakeDevice, bytes: u64) -> Result<(), FakeOutOfMemory> {
    device.alloc(bytes).map(drop)
}

type Inner = fn(&FakeDevice, &Done) -> Result<(), FakeOutOfMemory>;

/// Two attempts that hold 40 bytes each, with a loop inside that needs 50 more.
fn two_threads(inner: Inner) -> Done {
    must_end(move || {
        let (device, meet, done) = (FakeDevice::new(100), Barrier::new(2), Done::default());
        let outer = || {
            let first = AtomicUsize::new(0);
            let with = execute::with::<NoCache>().device(&device);
            with.range(0..1, 1, |_, _| {
                let _held = device.alloc(40)?;
                if first.fetch_add(1, Relaxed) == 0 {
                    meet.wait();
                }
                inner(&device, &done)
            })
        };
        thread::scope(|scope| {
            [scope.spawn(outer), scope.spawn(outer)].map(|thread| thread.join().unwrap().unwrap())
        });
        done
    })
}

#[test]
fn items_that_fit_alone_are_not_left_out() {
    let done = two_threads(leaves_out);
    assert!(done.left_out.lock().unwrap().is_empty());
    assert!(done.gave_way.into_inner() > 0);
}

#[test]
fn pieces_that_fit_alone_do_not_leave_the_device() {
    let done = two_threads(falls_back_to);
    assert_eq!(done.elsewhere.into_inner(), 0);
    assert!(done.gave_way.into_inner() > 0);
}

/// An attempt beside another one, with a loop inside that does not fit beside it: what the call came to.
fn beside(bytes: u64, ladder: Ladder<'static>, max_attempts: usize, inner: Inner) -> (bool, Done) {
    must_end(move || {
        let (device, done) = (FakeDevice::new(100), Done::default());
        let other = Other::on(&device, bytes);
        let with = execute::with::<NoCache>().device(&device).ladder(ladder).max_attempts(max_attempts);
        let result = with.batch(1, |_| inner(&device, &done));
        other.end();
        (result.is_ok(), done)
    })
}

/// What is around has to be able to wait: otherwise the call would fail as a whole.
#[test]
fn where_the_attempt_around_waits_for_nobody_items_are_left_out_as_ever() {
    let (patient, hasty) = (Ladder::default(), Ladder::default().without_waiting());
    for (ladder, max_attempts) in [(hasty, usize::MAX), (patient, 1)] {
        let (is_ok, done) = beside(60, ladder, max_attempts, leaves_out_without_waiting);
        assert!(is_ok);
        assert_eq!((done.left_out.into_inner().unwrap(), done.gave_way.into_inner()), (vec![1], 0));
    }
}

/// Once the one around has waited in vain, there is nothing more to wait for.
#[test]
fn what_still_fails_after_the_wait_is_left_out() {
    let briefly = Ladder::default().wait(Duration::from_millis(1));
    let (is_ok, done) = beside(60, briefly, usize::MAX, leaves_out_without_waiting);
    assert!(is_ok);
    assert_eq!((done.left_out.into_inner().unwrap(), done.gave_way.into_inner()), (vec![1], 1));
}

fn leaves_out_without_waiting(device: &FakeDevice, done: &Done) -> Result<(), FakeOutOfMemory> {
    let observer = |event: &Event<'_>| done.observe(event);
    let with = execute::with::<NoCache>().device(device).observer(&observer);
    let with = with.ladder(Ladder::default().without_waiting()).by_cost(|item| COSTS[item]);
    let with = with.left_out(|item| done.left_out.lock().unwrap().push(item.index));
    with.range(0..3, 20, |start, end| alloc(device, COSTS[start..end].iter().sum()))
}

/// Others that end between the two failures are no reason to fail as a whole.
#[test]
fn the_one_around_is_made_anew_although_the_others_have_ended_meanwhile() {
    must_end(|| {
        let (device, done) = (FakeDevice::new(100), Done::default());
        let other = Mutex::new(None);
        let attempts = AtomicUsize::new(0);
        execute::with::<NoCache>()
            .device(&device)
            .batch(1, |_| {
                if attempts.fetch_add(1, Relaxed) == 0 {
                    *other.lock().unwrap() =
                        Some(thread::scope(|scope| scope.spawn(|| Other::on(&device, 60)).join().unwrap()));
                }
                let result = leaves_out_without_waiting(&device, &done);
                if let Some(other) = other.lock().unwrap().take() {
                    other.end();
                }
                result
            })
            .unwrap();
        assert_eq!((attempts.into_inner(), done.gave_way.into_inner()), (2, 1));
        assert!(done.left_out.lock().unwrap().is_empty());
    });
}

/// A panic is passed on only where the one around has promised, before it began, to answer for it.
#[test]
fn panics_give_way_where_the_attempt_around_keeps_them_from_being_printed() {
    must_end(|| {
        for (company_before, gave_way, left_out) in [(true, 1, vec![]), (false, 0, vec![1])] {
            let (device, done) = (FakeDevice::new(100), Done::default());
            let other = Mutex::new(company_before.then(|| Other::on(&device, 60)));
            let outer = || {
                execute::with::<NoCache>().device(&device).batch(1, |_| {
                    if !company_before && other.lock().unwrap().is_none() {
                        *other.lock().unwrap() = Some(Other::on(&device, 60));
                    }
                    let with = execute::with::<NoCache>().device(&device);
                    let observer = |event: &Event<'_>| done.observe(event);
                    let with = with.ladder(Ladder::default().without_waiting()).observer(&observer);
                    let with = with.by_cost(|item| COSTS[item]);
                    let with = with.left_out(|item| done.left_out.lock().unwrap().push(item.index));
                    let body = |start: usize, end: usize| match device.alloc(COSTS[start..end].iter().sum()) {
                        Ok(held) => drop(held),
                        Err(_) => panic_any(OutOfMemory::new(None)),
                    };
                    let result = catch_unwind(AssertUnwindSafe(|| with.range(0..3, 20, body)));
                    if company_before && let Some(other) = other.lock().unwrap().take() {
                        other.end();
                    }
                    result.unwrap_or_else(|payload| resume_unwind(payload));
                });
            };
            outer();
            if let Some(other) = other.lock().unwrap().take() {
                other.end();
            }
            assert_eq!(done.left_out.into_inner().unwrap(), left_out);
            assert_eq!(done.gave_way.into_inner(), gave_way);
        }
    });
}
