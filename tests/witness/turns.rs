//! Attempts that wait for a device: they are entered once they have their turn.

use std::fmt;
use std::sync::{Barrier, mpsc};
use std::thread;

use expect_test::expect;
use toma::classify::OutOfMemory;
use toma::observe::{Event, EventKind};
use toma::{NoCache, execute};

use crate::named::Named;
use crate::scripted::{Session, depth, lines, note, thread_ends};

/// Returns the notifications of a thread that runs `call`, which first meets an attempt of this thread on the device,
/// and has the device to itself once it has reported that it waits.
fn beside(device: &Named, call: impl FnOnce(&Barrier, &mpsc::Sender<()>) + Send) -> String {
    let (meet, (waits, waiting)) = (&Barrier::new(2), mpsc::channel());
    let work = move || {
        call(meet, &waits);
        thread_ends();
        lines().iter().map(|line| line.clone() + "\n").collect::<String>()
    };
    thread::scope(|scope| {
        let other = scope.spawn(work);
        execute::with::<NoCache>().device(device).batch(1, |_| {
            meet.wait();
            waiting.recv().expect("the other call waits");
        });
        other.join().unwrap()
    })
}

#[test]
fn an_attempt_that_waits_for_its_turn_has_not_begun() {
    let session = Session::new();
    let device = Named("waited for");
    let received = beside(&device, |meet, waits| {
        let observer = |event: &Event<'_>| {
            if let EventKind::Waits { .. } = event.kind {
                note(format!("waits at depth {}", depth()));
                waits.send(()).unwrap();
            }
        };
        let mut first = true;
        execute::with::<NoCache>()
            .device(&device)
            .observer(&observer)
            .batch(1, |_| {
                if std::mem::take(&mut first) {
                    meet.wait();
                    return Err(OutOfMemory::new(None));
                }
                Ok(())
            })
            .unwrap();
    });
    expect![[r"
        enter a1 0..1
        leave a1
        asked
        enter a1 0..1 again
        leave a1
        ended a1: Failed(OutOfMemory)
        waits at depth 0
        enter a2 0..1
        leave a2
        ended a2: Succeeded
    "]]
    .assert_eq(&received);
    session.take();
}

/// An error that notes its drop.
#[derive(Debug)]
struct Value;

impl Drop for Value {
    fn drop(&mut self) {
        note(format!("value dropped at depth {}", depth()));
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing about memory")
    }
}

impl std::error::Error for Value {}

#[test]
fn an_attempt_whose_loop_gave_way_is_reported_as_failed() {
    let session = Session::new();
    let device = Named("given way on");
    let received = beside(&device, |meet, waits| {
        let observer = |event: &Event<'_>| {
            if let EventKind::Waits { .. } = event.kind {
                waits.send(()).unwrap();
            }
        };
        let mut first = true;
        let with = execute::with::<NoCache>().device(&device).observer(&observer);
        let value = with.batch(1, |_| {
            let inner = execute::with::<NoCache>().device(&device).batch(1, |_| {
                if std::mem::take(&mut first) {
                    meet.wait();
                    return Err(OutOfMemory::new(None));
                }
                Ok(())
            });
            note(if inner.is_ok() { "worked" } else { "swallowed" });
            inner.map_err(|_| Value)
        });
        assert!(value.is_ok());
        note("returned");
    });
    expect![[r"
        enter a1 0..1
        enter b1 0..1
        leave b1
        asked
        ended b1: Failed(OutOfMemory)
        swallowed
        leave a1
        asked
        enter a1 0..1 again
        value dropped at depth 1
        leave a1
        ended a1: Failed(OutOfMemory)
        enter a2 0..1
        enter c1 0..1
        leave c1
        ended c1: Succeeded
        worked
        leave a2
        ended a2: Succeeded
        returned
    "]]
    .assert_eq(&received);
    session.take();
}
