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

/// A reader in whose middle another wants to be alone: inside it, and so held up.
fn inside<'a>(outer: &Seat, inner: &'a Seat) -> Task<'a> {
    Task::waiting(inner.admission(Kind::Alone, Some(outer.node()), UNBOUNDED))
}

#[test]
fn who_holds_nothing_waits_for_those_that_are_held_up_and_lets_them_pass() {
    let (hub, [outer, inner, other]) = three();
    assert!(outer.try_enter(None) && other.try_enter(None));
    let seat = Seat::of(hub, DEVICE);
    let mut outside = Task::waiting(alone(&seat, UNBOUNDED));
    let mut inside = inside(&outer, &inner);
    assert_eq!([other.others(), outer.others(), inner.others()], [1; 3], "what is held up holds memory");
    other.leave();
    assert_eq!(inside.poll_woken(), Some(Admitted::Yes), "it goes before one who is older");
    assert_eq!(inner.others(), 0);
    inner.leave();
    assert_eq!(outside.poll_woken(), None, "the outer attempt runs again");
    outer.leave();
    assert_eq!(outside.poll_woken(), Some(Admitted::Yes));
    seat.leave();
    assert!(hub.is_empty());
}

#[test]
fn nested_attempts_do_not_wait_for_those_that_are_held_up() {
    let (hub, [outer, inner, _]) = three();
    let [theirs, nested] = [(); 2].map(|()| Seat::of(hub, DEVICE));
    assert!(outer.try_enter(None) && theirs.try_enter(None));
    let mut first = inside(&outer, &inner);
    let mut second = inside(&theirs, &nested);
    assert_eq!(first.poll_woken(), Some(Admitted::Yes), "both hold what the other may lack");
    assert_eq!(second.poll_woken(), None);
    inner.leave();
    assert_eq!(second.poll_woken(), None, "the first runs again");
    outer.leave();
    assert_eq!(second.poll_woken(), Some(Admitted::Yes));
    nested.leave();
    theirs.leave();
    assert!(hub.is_empty());
}

#[test]
fn who_comes_new_does_not_pass_who_waits_to_be_alone() {
    let (hub, [outer, inner, waits]) = three();
    let there = Seat::of(hub, "elsewhere");
    assert!(outer.try_enter(None) && there.try_enter(None));
    let mut task = Task::waiting(alone(&waits, UNBOUNDED));
    let late = Seat::of(hub, DEVICE);
    assert!(!late.try_enter(None), "it holds nothing");
    assert!(inner.try_enter(Some(outer.node())), "it is a part of what is waited for");
    let nested = Seat::of(hub, DEVICE);
    assert!(nested.try_enter(Some(there.node())), "it holds memory elsewhere");
    for seat in [inner, nested, outer] {
        assert_eq!(task.poll_woken(), None);
        seat.leave();
    }
    assert_eq!(task.poll_woken(), Some(Admitted::Yes));
    let nested = Seat::of(hub, DEVICE);
    assert!(!nested.try_enter(Some(there.node())), "the other is alone now");
}

#[test]
fn a_nested_attempt_does_not_pass_a_nested_one_that_waits_to_be_alone() {
    let (hub, [outer, inner, runs]) = three();
    let (there, nested) = (Seat::of(hub, "elsewhere"), Seat::of(hub, DEVICE));
    assert!(outer.try_enter(None) && runs.try_enter(None) && there.try_enter(None));
    let _task = inside(&outer, &inner);
    assert!(!nested.try_enter(Some(there.node())));
}

/// As where a task waits for several loops at a time.
#[test]
fn two_inside_one_attempt_are_alone_beside_each_other() {
    let (hub, [outer, one, two]) = three();
    assert!(outer.try_enter(None) && two.try_enter(Some(outer.node())));
    let mut first = inside(&outer, &one);
    two.leave();
    assert_eq!(first.poll_woken(), Some(Admitted::Yes));
    assert!(!two.try_enter(Some(outer.node())), "the other one is alone");
    let mut second = Task::waiting(two.admission(Kind::Shared, Some(outer.node()), UNBOUNDED));
    let innermost = Seat::of(hub, DEVICE);
    assert!(innermost.try_enter(Some(one.node())), "it belongs to the one that is alone");
    innermost.leave();
    one.leave();
    assert_eq!(second.poll_woken(), Some(Admitted::Yes));
    two.leave();
    outer.leave();
    assert!(hub.is_empty());
}

#[test]
fn alone_is_alone_also_while_held_up_but_for_nested_attempts() {
    let (hub, [outer, late, nested]) = three();
    let [inner, there] = [(); 2].map(|()| Seat::of(hub, "elsewhere"));
    assert!(there.try_enter(None));
    assert_eq!(alone(&outer, UNBOUNDED).wait(), Admitted::Yes);
    let mut inside = inside(&outer, &inner);
    let mut newcomer = Task::waiting(shared(&late, UNBOUNDED));
    assert!(nested.try_enter(Some(there.node())), "what it holds is what the one inside waits for");
    there.leave();
    assert_eq!(inside.poll_woken(), None, "the outer attempt would not be alone");
    nested.leave();
    assert_eq!(inside.poll_woken(), Some(Admitted::Yes));
    inner.leave();
    assert_eq!(newcomer.poll_woken(), None);
    outer.leave();
    assert_eq!(newcomer.poll_woken(), Some(Admitted::Yes));
}

/// Each holds one device and waits for the other.
#[test]
fn waits_on_two_devices_in_opposite_order_go_through() {
    let hub = hub();
    let [one, two] = ["one", "another"].map(|device| (Seat::of(hub, device), Seat::of(hub, device)));
    assert!(one.0.try_enter(None) && two.0.try_enter(None));
    let mut first = inside(&one.0, &two.1);
    let mut second = inside(&two.0, &one.1);
    assert_eq!(first.poll_woken(), Some(Admitted::Yes));
    assert_eq!(second.poll_woken(), None);
    let outside = Seat::of(hub, "one");
    let mut waits = Task::waiting(alone(&outside, UNBOUNDED));
    two.1.leave();
    one.0.leave();
    assert_eq!(second.poll_woken(), Some(Admitted::Yes));
    assert_eq!(waits.poll_woken(), None);
    one.1.leave();
    assert_eq!(waits.poll_woken(), Some(Admitted::Yes));
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
