//! Waiting for one's turn: how it ends, and what is left of it.

use super::*;

/// Long enough to begin to wait, however busy the machine.
const SOON: Duration = Duration::from_millis(300);

/// Three seats at one device of a hub of their own.
fn three() -> (&'static Hub, [Seat; 3]) {
    let hub = hub();
    (hub, [(); 3].map(|()| Seat::of(hub, DEVICE)))
}

#[test]
fn the_oldest_comes_first() {
    let (hub, [runs, first, second]) = three();
    assert!(runs.try_enter(None));
    let mut first_task = Task::waiting(alone(&first, UNBOUNDED));
    let mut second_task = Task::waiting(shared(&second, UNBOUNDED));
    runs.leave();
    assert!(!runs.try_enter(None), "a beginner overtakes");
    let mut last_task = Task::waiting(shared(&runs, UNBOUNDED));
    assert_eq!(second_task.poll_woken(), None);
    assert_eq!(first_task.poll_woken(), Some(Admitted::Yes));
    assert_eq!(first.others(), 0);
    first.leave();
    assert_eq!([second_task.poll_woken(), last_task.poll_woken()], [Some(Admitted::Yes); 2]);
    assert!(hub.is_empty());
    assert_eq!(second.others(), 1);
}

#[test]
fn another_device_is_not_waited_for() {
    let (hub, [runs, waits, _]) = three();
    assert!(runs.try_enter(None));
    let _task = Task::waiting(alone(&waits, UNBOUNDED));
    let elsewhere = Seat::of(hub, "elsewhere");
    assert!(elsewhere.try_enter(None));
    elsewhere.leave();
    assert_eq!(alone(&elsewhere, UNBOUNDED).wait(), Admitted::Yes);
}

#[test]
fn who_waits_does_not_count_and_neither_do_the_attempts_around_it() {
    let (hub, [outer, inner, other]) = three();
    assert!(outer.try_enter(None) && other.try_enter(None));
    // Both want to be alone beside one another: inside, and outside.
    let mut inside = Task::waiting(inner.admission(Kind::Alone, Some(outer.node()), UNBOUNDED));
    assert_eq!(other.others(), 0);
    other.leave();
    let mut outside = Task::new(alone(&other, UNBOUNDED));
    assert_eq!(outside.poll(), None);
    assert_eq!(inside.poll_woken(), Some(Admitted::Yes));
    assert_eq!(inner.others(), 0);
    inner.leave();
    assert_eq!(outside.poll_woken(), None, "the outer attempt runs again");
    outer.leave();
    assert_eq!(outside.poll_woken(), Some(Admitted::Yes));
    other.leave();
    assert!(hub.is_empty());
}

#[test]
fn a_wait_on_another_device_lets_others_be_alone_and_ends_after_them() {
    let (hub, [outer, other, _]) = three();
    let [inner, there] = [(); 2].map(|()| Seat::of(hub, "elsewhere"));
    assert!(outer.try_enter(None) && there.try_enter(None));
    let mut inside = Task::waiting(inner.admission(Kind::Alone, Some(outer.node()), UNBOUNDED));
    assert_eq!(alone(&other, UNBOUNDED).wait(), Admitted::Yes);
    there.leave();
    assert_eq!(inside.poll_woken(), None, "the outer attempt would run beside one who is alone");
    other.leave();
    assert_eq!(inside.poll_woken(), Some(Admitted::Yes));
}

#[test]
fn a_wait_that_is_dropped_leaves_the_queue() {
    let (hub, [runs, goes, stays]) = three();
    assert!(runs.try_enter(None));
    let task = Task::waiting(alone(&goes, UNBOUNDED));
    let mut next = Task::waiting(shared(&stays, UNBOUNDED));
    drop(task);
    assert_eq!(next.poll_woken(), Some(Admitted::Yes));
    assert!(hub.is_empty());
    assert_eq!(runs.others(), 1);
}

#[test]
fn a_wait_that_is_dropped_after_its_turn_came_gives_the_turn_on() {
    let (hub, [runs, goes, stays]) = three();
    assert!(runs.try_enter(None));
    let task = Task::waiting(alone(&goes, UNBOUNDED));
    let mut next = Task::waiting(alone(&stays, UNBOUNDED));
    runs.leave();
    assert_eq!(next.poll_woken(), None);
    drop(task);
    assert_eq!(next.poll_woken(), Some(Admitted::Yes));
    stays.leave();
    assert!(hub.is_empty());
}

#[test]
fn a_wait_that_nobody_began_is_in_no_queue() {
    let (hub, [runs, waits, _]) = three();
    assert!(runs.try_enter(None));
    drop(alone(&waits, UNBOUNDED));
    assert!(hub.is_empty());
    assert!(waits.try_enter(None));
}

#[test]
fn a_bound_of_zero_waits_for_nobody() {
    let (hub, [runs, waits, _]) = three();
    assert!(runs.try_enter(None));
    assert_eq!(alone(&waits, within(Duration::ZERO)).wait(), Admitted::TimedOut);
    assert_eq!([runs.others(), waits.others()], [1, 1], "it runs beside the other");
    assert!(hub.is_empty());
    runs.leave();
    waits.leave();
    assert_eq!(alone(&waits, within(Duration::ZERO)).wait(), Admitted::Yes, "there is nobody to wait for");
}

#[test]
fn a_bound_ends_the_wait_of_a_thread_and_of_a_task_without_a_clock() {
    let (hub, [runs, thread, task]) = three();
    assert!(runs.try_enter(None));
    assert_eq!(alone(&thread, within(SOON)).wait(), Admitted::TimedOut);
    let mut task = Task::waiting(alone(&task, within(SOON)));
    until(|| task.woken.0.load(Relaxed) > 0);
    assert_eq!(task.poll_woken(), Some(Admitted::TimedOut));
    drop(task);
    assert!(hub.is_empty());
}

#[test]
fn a_turn_that_came_before_anybody_looked_is_no_time_out() {
    let (_, [runs, waits, _]) = three();
    assert!(runs.try_enter(None));
    let soon = within(SOON);
    let mut task = Task::waiting(alone(&waits, soon));
    until(|| Instant::now() > soon.until.unwrap());
    runs.leave();
    assert_eq!(task.poll(), Some(Admitted::Yes));
}

#[test]
fn what_timed_out_blocks_nobody() {
    let (hub, [runs, late, next]) = three();
    assert!(runs.try_enter(None));
    let mut task = Task::waiting(alone(&late, within(SOON)));
    let mut behind = Task::waiting(alone(&next, UNBOUNDED));
    until(|| task.woken.0.load(Relaxed) > 0);
    assert_eq!(task.poll(), Some(Admitted::TimedOut));
    // Its turn would come now.
    runs.leave();
    assert_eq!(behind.poll_woken(), None, "the one that timed out runs");
    late.leave();
    assert_eq!(behind.poll_woken(), Some(Admitted::Yes));
    next.leave();
    assert!(hub.is_empty());
}

#[test]
fn cancelling_ends_waits_before_and_while_they_last() {
    let (hub, [runs, task, thread]) = three();
    assert!(runs.try_enter(None));
    let cancel = Cancel::new();
    let bounds = Bounds { until: None, cancel: Some(&cancel) };
    let mut task = Task::waiting(alone(&task, bounds));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| alone(&thread, bounds).wait());
        until(|| hub.waiting() == 2);
        cancel.cancel();
        assert_eq!(waits.join().unwrap(), Admitted::Cancelled);
    });
    assert_eq!(task.poll_woken(), Some(Admitted::Cancelled));
    assert!(hub.is_empty());
    assert_eq!(runs.others(), 2, "both have entered");

    thread.leave();
    assert_eq!(alone(&thread, bounds).wait(), Admitted::Cancelled);
    assert!(hub.is_empty());
}

#[test]
fn a_wait_that_is_over_is_not_woken_by_a_cancellation() {
    let (_, [runs, waits, _]) = three();
    let cancel = Cancel::new();
    assert!(runs.try_enter(None));
    let mut task = Task::waiting(alone(&waits, Bounds { until: None, cancel: Some(&cancel) }));
    runs.leave();
    assert_eq!(task.poll_woken(), Some(Admitted::Yes));
    cancel.cancel();
    assert_eq!(task.woken.0.load(Relaxed), 0);
}

#[test]
fn the_place_in_the_queue_is_kept_until_the_piece_is_done() {
    let (_, [runs, first, second]) = three();
    assert!(runs.try_enter(None));
    assert_eq!(alone(&first, within(Duration::ZERO)).wait(), Admitted::TimedOut);
    first.leave();
    let mut second_task = Task::waiting(alone(&second, UNBOUNDED));
    let mut first_task = Task::waiting(alone(&first, UNBOUNDED));
    runs.leave();
    assert_eq!(second_task.poll_woken(), None);
    assert_eq!(first_task.poll_woken(), Some(Admitted::Yes));

    first.leave();
    first.next_piece();
    assert_eq!(second_task.poll_woken(), Some(Admitted::Yes));
    let mut third_task = Task::waiting(alone(&runs, UNBOUNDED));
    let mut first_task = Task::waiting(alone(&first, UNBOUNDED));
    second.leave();
    assert_eq!(first_task.poll_woken(), None);
    assert_eq!(third_task.poll_woken(), Some(Admitted::Yes));
}

#[test]
fn a_call_does_not_inherit_the_place_of_the_one_before_it() {
    let (hub, [runs, first, second]) = three();
    assert!(runs.try_enter(None));
    assert_eq!(alone(&first, within(Duration::ZERO)).wait(), Admitted::TimedOut);
    let slot = first.slot.index();
    drop(first);
    let mut second_task = Task::waiting(alone(&second, UNBOUNDED));
    let first = Seat::of(hub, DEVICE);
    assert_eq!(first.slot.index(), slot);
    let mut first_task = Task::waiting(alone(&first, UNBOUNDED));
    runs.leave();
    assert_eq!(first_task.poll_woken(), None);
    assert_eq!(second_task.poll_woken(), Some(Admitted::Yes));
}

#[test]
fn the_task_that_polled_last_is_woken() {
    let (_, [runs, waits, _]) = three();
    assert!(runs.try_enter(None));
    let mut task = Task::waiting(alone(&waits, UNBOUNDED));
    let before = std::mem::take(&mut task.woken);
    assert_eq!(task.poll(), None);
    runs.leave();
    assert_eq!(before.0.load(Relaxed), 0);
    assert_eq!(task.poll_woken(), Some(Admitted::Yes));
}

#[test]
fn a_waker_that_panics_leaves_the_queue_in_order() {
    struct Bad;
    impl Wake for Bad {
        fn wake(self: Arc<Self>) {
            panic!("a waker of somebody else");
        }
    }
    let (hub, [runs, waits, next]) = three();
    let cancel = Cancel::new();
    let bounds = Bounds { until: None, cancel: Some(&cancel) };
    assert_eq!(alone(&runs, UNBOUNDED).wait(), Admitted::Yes);
    let mut task = shared(&waits, bounds);
    let bad = Waker::from(Arc::new(Bad));
    assert!(Pin::new(&mut task).poll(&mut Context::from_waker(&bad)).is_pending());
    let mut beside = Task::waiting(shared(&next, bounds));
    runs.leave();
    assert_eq!(beside.poll_woken(), Some(Admitted::Yes), "it comes after the one that panics");
    drop(task);
    drop(beside);
    next.leave();
    assert!(hub.is_empty());

    assert!(runs.try_enter(None));
    let mut task = alone(&waits, bounds);
    assert!(Pin::new(&mut task).poll(&mut Context::from_waker(&bad)).is_pending());
    let mut beside = Task::waiting(alone(&next, bounds));
    cancel.cancel();
    assert_eq!(beside.poll_woken(), Some(Admitted::Cancelled));
}

#[test]
fn waits_can_be_sent_to_other_threads() {
    fn is_send(_: &impl Send) {}
    let (_, [one, _, _]) = three();
    is_send(&alone(&one, UNBOUNDED));
    is_send(&one);
}
