//! Others that come to a device, take what an attempt needs, and are gone before its failure is judged.

use std::cell::Cell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::thread;

use toma::classify::OutOfMemory;
use toma::testing::{FakeDevice, FakeOutOfMemory};
use toma::{NoCache, execute};

use crate::kit::{Other, Watching, must_end, patient};

/// An allocation that fails because of another call, which ends before anybody looks.
fn fails_beside_another(device: &FakeDevice, bytes: u64) -> FakeOutOfMemory {
    let other = Other::on(device, 60);
    let error = device.alloc(bytes).unwrap_err();
    other.end();
    error
}

/// Two calls at the same time: then it is known that there may be others.
fn meet(device: &FakeDevice) {
    let other = Other::on(device, 60);
    execute::with::<NoCache>().device(device).batch(1, |_| ());
    other.end();
}

#[test]
fn who_fits_alone_succeeds_although_the_other_is_gone() {
    must_end(|| {
        let (device, seen) = (FakeDevice::new(100), Watching::default());
        let mut meets = true;
        let with = execute::with::<NoCache>().device(&device).ladder(patient()).observer(&seen);
        let result = with.batch(1, |_| {
            if mem::take(&mut meets) {
                return Err(fails_beside_another(&device, 60));
            }
            device.alloc(60).map(drop)
        });
        result.unwrap();
        assert_eq!(seen.events(), ["again 1: alone", "waits with 1, others: 0", "waited, alone: true"]);
    });
}

/// Once two calls have met there, it is promised that a failure may be tried again.
#[test]
fn so_do_bodies_that_panic() {
    must_end(|| {
        let (device, mut meets) = (FakeDevice::new(100), true);
        meet(&device);
        execute::with::<NoCache>().device(&device).ladder(patient()).batch(1, |_| {
            if mem::take(&mut meets) {
                fails_beside_another(&device, 60);
                panic_any(OutOfMemory::new(None));
            }
            drop(device.alloc(60).unwrap());
        });
    });
}

/// A promise that comes to nothing changes nothing: the panic goes through once.
#[test]
fn a_panic_goes_through_when_nobody_came_this_time() {
    must_end(|| {
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
    });
}

/// Not only before the first attempt: in the middle of a loop as well.
#[test]
fn nobody_shrinks_because_of_who_came_and_went() {
    must_end(|| {
        let (device, seen) = (FakeDevice::new(100), Watching::default());
        let mut meets = true;
        let with = execute::with::<NoCache>().device(&device).ladder(patient()).observer(&seen);
        let result = with.range(0..64, 8, |start, _| {
            if start == 32 && mem::take(&mut meets) {
                return Err(fails_beside_another(&device, 80));
            }
            device.alloc(80).map(drop)
        });
        result.unwrap();
        let alone = ["waits with 8, others: 0", "waited, alone: true"];
        // The next piece takes its turn.
        assert_eq!(seen.events(), [&["again 8: alone"], &alone[..], &alone[..]].concat());
    });
}

/// Sizes that fail of themselves are tried once.
#[test]
fn who_was_there_before_is_no_company_and_neither_are_loops_inside() {
    must_end(|| {
        let (device, elsewhere) = (FakeDevice::new(100), FakeDevice::new(100));
        Other::on(&device, 60).end();
        let seen = Watching::default();
        let with = execute::with::<NoCache>().device(&device).ladder(patient()).observer(&seen);
        let size = with.batch(4, |size| {
            execute::with::<NoCache>().device(&device).range(0..4, 2, |_, _| ());
            thread::scope(|scope| scope.spawn(|| Other::on(&elsewhere, 60).end()).join().unwrap());
            device.alloc(40 * size as u64).map(|_| size)
        });
        assert_eq!(size, Ok(2));
        assert_eq!(seen.events(), ["shrinks from 4 to 2"]);
    });
}
