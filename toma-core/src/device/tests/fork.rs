//! A child of `fork` has one thread, and none of the locks, turns and waits of its parent's threads.

#![cfg(unix)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

use super::*;

/// True if `child` returns in a child of this process.
#[allow(unsafe_code, reason = "there is no safe fork")]
fn succeeds_in_a_child(child: impl FnOnce()) -> bool {
    // SAFETY: the child runs Rust code on the one thread it has. The C library frees its own locks in a child; of
    // the locks of the standard library the child uses those of this module, which the tests are about.
    let process = unsafe { libc::fork() };
    if process == 0 {
        // SAFETY: no signal handler is set. The alarm ends a child that waits for ever.
        unsafe { libc::alarm(20) };
        let code = i32::from(catch_unwind(AssertUnwindSafe(child)).is_err());
        // SAFETY: nothing has to be cleaned up in the child.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: the pointer is to a status that lives until the call returns.
    let waited = unsafe { libc::waitpid(process, &raw mut status, 0) };
    waited == process && status == 0
}

#[test]
fn a_lock_that_another_thread_holds_is_free() {
    let device = device();
    let (locked, is_locked) = mpsc::channel();
    let (done, is_done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let device = &device;
        scope.spawn(move || {
            let _guard = device.queue.state.lock();
            locked.send(()).unwrap();
            let _ = is_done.recv();
        });
        is_locked.recv().unwrap();
        let succeeds = succeeds_in_a_child(|| {
            let shared = device.try_shared().unwrap();
            assert!(!shared.has_contention());
            drop(shared);
            assert_eq!(exclusive(device).wait().1, How::InTurn);
        });
        drop(done);
        assert!(succeeds);
    });
}

#[test]
fn an_attempt_in_the_middle_goes_on_and_those_of_other_threads_are_in_no_way() {
    let device = device();
    let mut outer = device.try_shared().unwrap();
    let inner = device.seen();
    let _beside = (device.try_shared(), device.measure());
    let _waits = Task::waiting(exclusive(&device));
    let promised = enclosed(Enclosing::default(), &outer, true);
    assert!(succeeds_in_a_child(|| {
        assert!(!outer.has_contention() && outer.others() == 0);
        assert!(!device.has_contention(inner) && !device.has_contention(device.seen()));
        let own = in_turn(Some(exclusive(&device).wait()));
        assert!(!own.has_contention());
        drop(own);
        device.mark(promised.promised_on(device.id()).unwrap());
        assert!(outer.is_marked());
        outer.renew();
        assert!(device.measure().is_some());
        drop(outer);
        assert!(is_empty(&device));
    }));
}

#[test]
fn bounds_end_waits_of_tasks() {
    // The parent's watchdog runs, but has no thread in the child.
    let soon = Duration::from_millis(200);
    let device = device();
    let _runs = device.begin_beside();
    let wait = || device.wait_for(TurnKind::Exclusive, at_most(soon));
    let mut task = Task::new(wait());
    until(|| task.poll().is_some());
    let mut waits = Task::new(wait());
    assert!(succeeds_in_a_child(|| {
        let _runs = exclusive(&device).wait();
        let mut own = Task::waiting(wait());
        until(|| own.is_woken());
        assert_eq!(own.poll().unwrap().1, How::TimedOut);
        assert_eq!(waits.poll().unwrap().1, How::TimedOut, "it began in the parent");
    }));
}

#[test]
fn reservations_and_promises_of_the_parent_are_its_own() {
    let pool = Pool::new("reserved before a fork");
    let (all, promised) = (try_reserve(&pool, 1000).unwrap(), promise(&pool, 1000));
    assert!(succeeds_in_a_child(|| {
        let own = try_reserve(&pool, 1000).unwrap();
        drop((all, promised));
        assert!(try_reserve(&pool, 1).is_err());
        drop(own);
        drop(try_reserve(&pool, 1000).unwrap());
    }));
}
