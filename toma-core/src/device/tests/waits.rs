//! Waits for a turn, by threads and tasks: how they end, and that they leave nothing behind.

use super::*;

/// Long enough to begin to wait, however busy the machine.
const SOON: Duration = Duration::from_millis(300);

#[test]
fn a_failed_attempt_queues_behind_those_that_wait() {
    let device = device();
    let [fails, runs] = [(); 2].map(|()| device.try_shared().unwrap());
    let mut earlier = Task::waiting(exclusive(&device));
    let mut again = Task::waiting(fails.exclusive_again(at_most(AGES)));
    assert!(device.try_shared().is_none(), "a beginner overtakes");
    drop(runs);
    assert!(again.poll_woken().is_none());
    let before = std::mem::take(&mut again.woken);
    assert!(again.poll().is_none());
    drop(in_turn(earlier.poll_woken()));
    assert_eq!(before.0.load(Relaxed), 0, "the waker of the last poll is woken");
    let turn = in_turn(again.poll_woken());
    assert!(turn.is_exclusive() && !turn.has_contention() && !earlier.is_woken());
    drop(turn);
    assert!(is_empty(&device));
}

#[test]
fn a_wait_that_is_dropped_leaves_the_queue_and_passes_its_grant_on() {
    let device = device();
    let runs = device.try_shared().unwrap();
    let [waits, granted] = [(); 2].map(|()| Task::waiting(exclusive(&device)));
    let mut next = Task::waiting(exclusive(&device));
    drop(waits);
    drop(runs);
    assert!(granted.is_woken() && next.poll_woken().is_none());
    drop(granted);
    drop(in_turn(next.poll_woken()));
    // Also an entry that was never polled.
    drop(exclusive(&device));
    assert!(device.try_shared().is_some());
}

#[test]
fn a_bound_ends_the_wait_of_a_thread_and_of_a_task_without_a_clock() {
    let device = device();
    let runs = device.try_shared().unwrap();
    assert_eq!(device.wait_for(TurnKind::Exclusive, at_most(SOON)).wait().1, How::TimedOut);
    let mut task = Task::waiting(device.wait_for(TurnKind::Exclusive, at_most(SOON)));
    until(|| task.is_woken());
    let (turn, how) = task.poll_woken().unwrap();
    assert!(how == How::TimedOut && !turn.is_exclusive() && turn.others() == 1);
    let head = Task::waiting(device.wait_for(TurnKind::Exclusive, at_most(SOON)));
    // The wait skips the head, which is never polled.
    drop(in_turn(Some(device.wait_for(TurnKind::Shared, at_most(AGES)).wait())));
    drop((turn, runs, head));
    assert!(is_empty(&device));
}

#[test]
fn a_call_that_holds_a_turn_waits_neither_for_a_turn_nor_for_bytes() {
    let ([device, other], pool) = ([(); 2].map(|()| device()), Pool::new("reservations inside"));
    let (runs, all) = (device.try_shared().unwrap(), try_reserve(&pool, 1000).unwrap());
    for holds in [&device, &other] {
        let (mut turn, mut bytes) = (Task::waiting(exclusive(&device)), waiting(&pool, 1, Duration::MAX));
        let outer = holds.begin_beside();
        let inside = Inside::of(Some(&outer.around()));
        assert_eq!(turn.poll().unwrap().1, How::TimedOut);
        assert!(bytes.poll().unwrap().is_err() && reserve(&pool, 1, Duration::MAX).is_err());
        drop(inside);
    }
    assert!(device.has_patience(|| unreachable!("no wait was in vain")));
    drop((runs, all));
    assert!(is_empty(&device) && is_empty(&other) && is_empty(&Device::of(&pool)));
}

#[test]
fn cancelling_ends_waits_before_and_while_they_last() {
    let device = device();
    let runs = device.try_shared().unwrap();
    let (cancel, begin) = (Cancel::new(), Instant::now());
    let bounds = WaitBounds { cancel: Some(&cancel), ..at_most(AGES) };
    let mut task = Task::waiting(device.wait_for(TurnKind::Exclusive, bounds));
    let mut behind = Task::waiting(device.wait_for(TurnKind::Shared, at_most(AGES)));
    thread::scope(|scope| {
        let waits = scope.spawn(|| device.wait_for(TurnKind::Exclusive, bounds).wait());
        until(|| device.queue.state.lock().waiting() == 3);
        cancel.cancel();
        assert_eq!(waits.join().unwrap().1, How::Cancelled);
        assert!(begin.elapsed() < AGES, "it was not woken");
    });
    let (turn, how) = task.poll_woken().unwrap();
    assert!(how == How::Cancelled && !turn.is_exclusive());
    drop(in_turn(behind.poll_woken()));
    assert_eq!(device.wait_for(TurnKind::Exclusive, bounds).wait().1, How::Cancelled);
    cancel.cancel();
    assert!(!task.is_woken(), "it is over");
    assert!(device.has_patience(|| unreachable!("no wait was in vain")));
    drop((turn, runs));
    assert!(is_empty(&device));
}

/// A waker that uses the device it waits for and panics, wherever it is cloned, woken or dropped.
#[test]
fn foreign_code_runs_without_the_lock_and_may_panic() {
    struct Uses(Device, Cancel);
    impl Uses {
        fn all(&self) {
            drop(self.0.begin_beside());
            drop(Device::named("used by a waker"));
            self.1.cancel();
        }
    }
    impl Wake for Uses {
        fn wake(self: Arc<Self>) {
            self.all();
            std::panic::resume_unwind(Box::new("a waker of other code"));
        }
    }
    impl Drop for Uses {
        fn drop(&mut self) {
            self.all();
        }
    }
    let device = device();
    let runs = exclusive(&device).wait().0;
    let cancel = Cancel::new();
    let bounds = WaitBounds { cancel: Some(&cancel), ..at_most(AGES) };
    let [mut granted, mut dropped, mut cancelled] =
        [TurnKind::Shared, TurnKind::Shared, TurnKind::Exclusive].map(|kind| device.wait_for(kind, bounds));
    for wait in [&mut granted, &mut dropped, &mut cancelled] {
        for _ in 0..2 {
            let waker = Waker::from(Arc::new(Uses(device.clone(), Cancel::new())));
            assert!(Pin::new(&mut *wait).poll(&mut Context::from_waker(&waker)).is_pending());
        }
    }
    let mut beside = Task::waiting(device.wait_for(TurnKind::Exclusive, bounds));
    drop(dropped);
    drop(runs);
    assert!(Pin::new(&mut granted).poll(&mut Context::from_waker(Waker::noop())).is_ready());
    cancel.cancel();
    assert_eq!(beside.poll_woken().unwrap().1, How::Cancelled);
    drop((granted, cancelled));
    assert!(is_empty(&device));
}

#[test]
fn a_wait_in_vain_spares_the_device_for_ten_times_as_long_or_until_what_ran_has_ended() {
    let device = device();
    let [one, two] = [(); 2].map(|()| device.try_shared().unwrap());
    let wait = |bounds| device.wait_for(TurnKind::Exclusive, bounds).wait();
    let deadline = crate::clock::now().checked_add(Duration::from_millis(1));
    assert_eq!(wait(WaitBounds { deadline, ..at_most(AGES) }).1, How::TimedOut);
    assert_eq!(wait(at_most(Duration::ZERO)).1, How::TimedOut);
    let now = Instant::now();
    assert!(device.has_patience(|| now), "neither lasted its full bound");

    let bound = Duration::from_millis(1);
    drop(wait(at_most(bound)));
    let end = Instant::now();
    assert!(!device.has_patience(|| now + 10 * bound), "less has passed since the wait ended");
    assert!(device.has_patience(|| end + 10 * bound));
    assert!(device.has_patience(|| unreachable!("it is forgotten")));

    drop(wait(at_most(bound)));
    drop(one);
    drop(device.begin_beside());
    assert!(!device.has_patience(|| now));
    drop(two);
    assert!(device.has_patience(|| now), "what began later is not what was waited for");
    assert!(is_empty(&device));
}
