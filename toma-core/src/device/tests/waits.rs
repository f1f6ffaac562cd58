//! Waiting for a turn: how it ends, and what is left of it.

use super::*;

/// Long enough to begin to wait, however busy the machine.
const SOON: Duration = Duration::from_millis(300);

#[test]
fn entries_go_in_order_and_a_beginner_overtakes_none() {
    let device = device();
    let runs = device.try_shared().unwrap();
    let mut first = Task::waiting(exclusive(&device));
    let mut second = Task::waiting(shared(&device));
    assert!(device.try_shared().is_none(), "a beginner overtakes");
    let mut third = Task::waiting(shared(&device));
    let mut last = Task::waiting(exclusive(&device));
    drop(runs);
    assert!(!second.is_woken() && device.try_shared().is_none());
    let turn = in_turn(first.poll_woken());
    assert!(turn.is_exclusive() && turn.others() == 0);
    drop(turn);
    let turns = [in_turn(second.poll_woken()), in_turn(third.poll_woken())];
    assert_eq!(turns[0].others(), 1, "neighbors that are shared begin together");
    assert!(last.poll_woken().is_none());
    drop(turns);
    drop(in_turn(last.poll_woken()));
    assert!(is_empty(&device));
}

#[test]
fn another_device_is_not_waited_for() {
    let (here, there) = (device(), device());
    let _runs = here.try_shared().unwrap();
    let _task = Task::waiting(exclusive(&here));
    assert!(there.try_shared().is_some());
    assert_eq!(exclusive(&there).wait().1, How::InTurn);
}

#[test]
fn a_failed_attempt_queues_behind_those_that_wait() {
    let device = device();
    let [fails, runs] = [(); 2].map(|()| device.try_shared().unwrap());
    let mut earlier = Task::waiting(exclusive(&device));
    let mut again = Task::waiting(fails.exclusive_again(at_most(AGES)));
    assert_eq!(device.running(), 1, "its own turn has ended");
    drop(runs);
    assert!(again.poll_woken().is_none());
    drop(in_turn(earlier.poll_woken()));
    assert!(in_turn(again.poll_woken()).is_exclusive());
    assert!(is_empty(&device));
}

#[test]
fn an_attempt_that_fails_with_no_other_left_is_exclusive_at_once() {
    let device = device();
    let fails = device.try_shared().unwrap();
    drop(device.try_shared());
    let (turn, how) = fails.exclusive_again(at_most(AGES)).wait();
    assert!(how == How::InTurn && turn.is_exclusive() && !turn.has_contention());
}

/// As a call does that may not wait, or an attempt inside a turn on another device.
#[test]
fn an_attempt_that_never_waits_begins_beside_an_exclusive_one() {
    let device = device();
    let first = exclusive(&device).wait().0;
    let beside = device.begin_beside();
    assert!(first.has_contention() && !beside.is_exclusive());
    let mut next = Task::waiting(exclusive(&device));
    drop(first);
    assert!(next.poll_woken().is_none(), "it still runs");
    drop(beside);
    drop(in_turn(next.poll_woken()));
}

/// Each holds one device and uses the other: neither waits.
#[test]
fn attempts_on_two_devices_in_opposite_order_go_through() {
    let (a, b) = (device(), device());
    let (on_a, on_b) = (a.try_shared().unwrap(), b.try_shared().unwrap());
    let mut waits = Task::waiting(exclusive(&b));
    let [b_on_a, a_on_b] = [b.begin_beside(), a.begin_beside()];
    assert!([&b_on_a, &a_on_b, &on_a, &on_b].iter().all(|turn| turn.has_contention()));
    drop((b_on_a, a_on_b));
    assert!(waits.poll_woken().is_none());
    drop((on_b, on_a));
    drop(in_turn(waits.poll_woken()));
    assert!(is_empty(&a) && is_empty(&b));
}

#[test]
fn a_wait_that_is_dropped_leaves_the_queue() {
    let device = device();
    let _runs = device.try_shared().unwrap();
    let task = Task::waiting(exclusive(&device));
    let mut next = Task::waiting(shared(&device));
    drop(task);
    drop(in_turn(next.poll_woken()));
    // Also one that was never polled.
    drop(exclusive(&device));
    assert!(device.try_shared().is_some());
}

#[test]
fn a_grant_that_is_dropped_is_passed_on() {
    let device = device();
    let runs = device.try_shared().unwrap();
    let task = Task::waiting(exclusive(&device));
    let mut next = Task::waiting(exclusive(&device));
    drop(runs);
    assert!(task.is_woken() && next.poll_woken().is_none());
    drop(task);
    drop(in_turn(next.poll_woken()));
    assert!(is_empty(&device));
}

#[test]
fn a_bound_of_zero_does_not_wait_and_is_not_in_vain() {
    let device = device();
    let runs = device.try_shared().unwrap();
    let now = Instant::now();
    let (turn, how) = device.wait_for(TurnKind::Exclusive, at_most(Duration::ZERO)).wait();
    assert!(how == How::TimedOut && !turn.is_exclusive() && turn.others() == 1);
    drop((turn, runs));
    assert!(device.has_patience(|| now + SOON));
    assert_eq!(device.wait_for(TurnKind::Exclusive, at_most(AGES)).wait().1, How::InTurn);
    assert!(is_empty(&device));
}

#[test]
fn a_bound_ends_the_wait_of_a_thread_and_of_a_task_without_a_clock() {
    let device = device();
    let runs = device.try_shared().unwrap();
    assert_eq!(device.wait_for(TurnKind::Exclusive, at_most(SOON)).wait().1, How::TimedOut);
    let mut task = Task::waiting(device.wait_for(TurnKind::Exclusive, at_most(SOON)));
    until(|| task.is_woken());
    let (turn, how) = task.poll_woken().unwrap();
    assert!(how == How::TimedOut && !turn.is_exclusive());
    drop((turn, runs));
    assert!(is_empty(&device));
}

#[test]
fn a_turn_that_came_before_the_bound_is_no_time_out() {
    let device = device();
    let runs = device.try_shared().unwrap();
    let (bound, begin) = (SOON, Instant::now());
    let mut task = Task::waiting(device.wait_for(TurnKind::Exclusive, at_most(bound)));
    drop(runs);
    if begin.elapsed() < bound {
        until(|| begin.elapsed() > 2 * bound);
        drop(in_turn(task.poll()));
    }
}

#[test]
fn a_head_that_is_past_its_bound_and_never_polled_is_skipped() {
    let device = device();
    let _runs = device.try_shared().unwrap();
    let mut head = Task::waiting(device.wait_for(TurnKind::Exclusive, at_most(SOON)));
    // By the one behind it, which could begin but for the head.
    let (behind, how) = shared(&device).wait();
    assert_eq!(how, How::InTurn);
    assert!(device.try_shared().is_some());
    assert_eq!(head.poll().unwrap().1, How::TimedOut);
    drop(behind);
}

#[test]
fn a_turn_that_is_past_its_bound_and_never_claimed_is_taken_back() {
    let device = device();
    let runs = device.try_shared().unwrap();
    let mut granted = Task::waiting(device.wait_for(TurnKind::Exclusive, at_most(SOON)));
    drop(runs);
    assert!(device.try_shared().is_none(), "its turn has begun");
    let (behind, how) = shared(&device).wait();
    assert_eq!(how, How::InTurn);
    assert_eq!(granted.poll().unwrap().1, How::TimedOut);
    drop(behind);
    assert!(is_empty(&device));
}

#[test]
fn a_wait_that_is_polled_inside_a_turn_ends_at_once() {
    let [device, other] = [(); 2].map(|()| device());
    let runs = device.try_shared().unwrap();
    for holds in [&device, &other] {
        let mut task = Task::waiting(exclusive(&device));
        let outer = holds.begin_beside();
        let inside = Inside::of(Some(outer.around()));
        assert_eq!(task.poll().unwrap().1, How::TimedOut);
        drop(inside);
    }
    assert!(device.has_patience(|| unreachable!("no wait was in vain")));
    drop(runs);
    assert!(is_empty(&device) && is_empty(&other));
}

#[test]
fn cancelling_ends_waits_before_and_while_they_last() {
    let device = device();
    let runs = device.try_shared().unwrap();
    let cancel = Cancel::new();
    let bounds = WaitBounds { cancel: Some(&cancel), ..at_most(AGES) };
    let mut task = Task::waiting(device.wait_for(TurnKind::Exclusive, bounds));
    thread::scope(|scope| {
        let waits = scope.spawn(|| device.wait_for(TurnKind::Exclusive, bounds).wait());
        until(|| device.queue.state.lock().waiting() == 2);
        cancel.cancel();
        assert_eq!(waits.join().unwrap().1, How::Cancelled);
    });
    let (turn, how) = task.poll_woken().unwrap();
    assert!(how == How::Cancelled && !turn.is_exclusive());
    assert_eq!(device.wait_for(TurnKind::Exclusive, bounds).wait().1, How::Cancelled);
    assert!(device.has_patience(|| unreachable!("no wait was in vain")));
    drop((turn, runs));
    assert!(is_empty(&device));
}

#[test]
fn a_wait_that_is_over_is_not_woken() {
    let device = device();
    let runs = device.try_shared().unwrap();
    let cancel = Cancel::new();
    let bounds = WaitBounds { cancel: Some(&cancel), ..at_most(AGES) };
    let mut task = Task::waiting(device.wait_for(TurnKind::Exclusive, bounds));
    drop(runs);
    let turn = in_turn(task.poll_woken());
    cancel.cancel();
    drop(turn);
    drop(exclusive(&device).wait());
    assert!(!task.is_woken());
}

#[test]
fn the_task_that_polled_last_is_woken() {
    let device = device();
    let runs = device.try_shared().unwrap();
    let mut task = Task::waiting(exclusive(&device));
    let before = std::mem::take(&mut task.woken);
    assert!(task.poll().is_none());
    drop(runs);
    assert_eq!(before.0.load(Relaxed), 0);
    drop(in_turn(task.poll_woken()));
}

#[test]
fn a_waker_that_panics_leaves_the_queue_in_order() {
    struct Bad;
    impl Wake for Bad {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new("a waker of other code"));
        }
    }
    let device = device();
    let cancel = Cancel::new();
    let bounds = WaitBounds { cancel: Some(&cancel), ..at_most(AGES) };
    let bad = Waker::from(Arc::new(Bad));
    let runs = exclusive(&device).wait().0;
    let mut task = device.wait_for(TurnKind::Shared, bounds);
    assert!(Pin::new(&mut task).poll(&mut Context::from_waker(&bad)).is_pending());
    let mut beside = Task::waiting(shared(&device));
    drop(runs);
    let runs = in_turn(beside.poll_woken());
    drop(task);

    let mut task = device.wait_for(TurnKind::Exclusive, bounds);
    assert!(Pin::new(&mut task).poll(&mut Context::from_waker(&bad)).is_pending());
    let mut beside = Task::waiting(device.wait_for(TurnKind::Exclusive, bounds));
    cancel.cancel();
    assert_eq!(beside.poll_woken().unwrap().1, How::Cancelled);
    drop((task, runs));
    assert!(is_empty(&device));
}

/// A waker that uses the device it waits for, wherever it is cloned, woken or dropped.
#[test]
fn no_foreign_code_runs_under_the_lock() {
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
        }
    }
    impl Drop for Uses {
        fn drop(&mut self) {
            self.all();
        }
    }
    let device = device();
    let runs = device.try_shared().unwrap();
    let waker = || Waker::from(Arc::new(Uses(device.clone(), Cancel::new())));
    let cancel = Cancel::new();
    let bounds = WaitBounds { cancel: Some(&cancel), ..at_most(AGES) };
    let [mut granted, mut dropped] = [(); 2].map(|()| device.wait_for(TurnKind::Exclusive, bounds));
    for wait in [&mut granted, &mut dropped] {
        for _ in 0..2 {
            assert!(Pin::new(&mut *wait).poll(&mut Context::from_waker(&waker())).is_pending());
        }
    }
    drop(dropped);
    drop(runs);
    assert!(Pin::new(&mut granted).poll(&mut Context::from_waker(&waker())).is_ready());
    cancel.cancel();
    drop(granted);
    assert!(is_empty(&device));
}

#[test]
fn a_wait_in_vain_spares_the_device_for_ten_times_as_long() {
    let device = device();
    let _runs = device.try_shared().unwrap();
    let bound = Duration::from_millis(1);
    let begin = Instant::now();
    let (beside, how) = device.wait_for(TurnKind::Exclusive, at_most(bound)).wait();
    let end = Instant::now();
    assert_eq!(how, How::TimedOut);
    assert!(!device.has_patience(|| begin + 10 * bound), "less has passed since the wait ended");
    drop(beside);
    assert!(device.has_patience(|| end + 10 * bound));
    assert!(device.has_patience(|| unreachable!("it is forgotten")));
}

#[test]
fn a_wait_in_vain_is_forgotten_when_what_ran_then_has_ended() {
    let device = device();
    let [one, two] = [(); 2].map(|()| device.try_shared().unwrap());
    let bounds = at_most(Duration::from_millis(1));
    let beside = device.wait_for(TurnKind::Exclusive, bounds).wait().0;
    let now = Instant::now();
    drop(one);
    drop(device.begin_beside());
    assert!(!device.has_patience(|| now));
    drop(two);
    assert!(device.has_patience(|| now), "what began later is not what was waited for");
    drop(beside);
}

#[test]
fn a_wait_that_the_deadline_ended_is_not_in_vain() {
    let device = device();
    let _runs = device.try_shared().unwrap();
    let deadline = crate::clock::now().checked_add(Duration::from_millis(1));
    let bounds = WaitBounds { deadline, ..at_most(AGES) };
    assert_eq!(device.wait_for(TurnKind::Exclusive, bounds).wait().1, How::TimedOut);
    assert!(device.has_patience(|| unreachable!("no wait was in vain")));
}

#[test]
fn a_panic_while_exclusive_passes_the_turn_on() {
    let device = device();
    let panics = thread::scope(|scope| {
        let panics = scope.spawn(|| {
            let (_turn, _measurement) = (exclusive(&device).wait(), device.measure());
            std::panic::resume_unwind(Box::new("in the middle"))
        });
        panics.join().is_err()
    });
    assert!(panics && is_empty(&device));
    assert_eq!(exclusive(&device).wait().1, How::InTurn);
}

#[test]
fn waits_and_turns_can_be_sent_to_other_threads() {
    fn is_send(_: &impl Send) {}
    let device = device();
    is_send(&exclusive(&device));
    is_send(&device.try_shared());
    is_send(&device.measure());
}
