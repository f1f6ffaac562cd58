//! Entering, leaving, and who counts.

use std::collections::HashSet;

use super::*;
use crate::memory::{MemorySource, Reading};

#[derive(Debug)]
struct Named(&'static str);

impl MemorySource for Named {
    fn name(&self) -> &str {
        self.0
    }

    fn read(&self) -> std::io::Result<Reading> {
        Ok(Reading::new(0, 0))
    }
}

#[test]
fn a_device_is_told_by_its_name() {
    let [one, two] = [(); 2].map(|()| Seat::at(&Named("told by its name")));
    let elsewhere = Seat::at(&Named("told by another name"));
    assert!(one.try_enter(None) && two.try_enter(None) && elsewhere.try_enter(None));
    assert_eq!([&one, &two, &elsewhere].map(Seat::others), [1, 1, 0]);
    one.leave();
    assert_eq!(two.others(), 0);
}

#[test]
fn a_seat_that_is_dropped_has_left() {
    let hub = hub();
    let [one, two] = [(); 2].map(|()| Seat::of(hub, DEVICE));
    assert!(one.try_enter(None) && two.try_enter(None));
    two.leave();
    let mut task = Task::waiting(alone(&two, UNBOUNDED));
    drop(one);
    assert_eq!(task.poll_woken(), Some(Admitted::Yes));
    drop(task);
    drop(two);
    assert!(hub.is_empty());
}

#[test]
fn leaving_twice_is_harmless() {
    let hub = hub();
    let [one, two, three] = [(); 3].map(|()| Seat::of(hub, DEVICE));
    assert_eq!(alone(&one, UNBOUNDED).wait(), Admitted::Yes);
    let mut next = Task::waiting(alone(&two, UNBOUNDED));
    one.leave();
    assert_eq!(next.poll(), Some(Admitted::Yes));
    one.leave();
    assert!(!three.try_enter(None), "the second time took the turn of another");
}

#[test]
fn the_attempts_around_do_not_count() {
    let hub = hub();
    let [outer, inner, innermost, other] = [(); 4].map(|()| Seat::of(hub, DEVICE));
    assert!(outer.try_enter(None));
    assert!(inner.try_enter(Some(outer.node())));
    assert!(innermost.try_enter(Some(inner.node())));
    assert!(other.try_enter(None));
    assert_eq!([&outer, &inner, &innermost, &other].map(Seat::others), [3, 2, 1, 3]);

    // The same while somebody is in the queue, whoever it is for.
    let elsewhere = Seat::of(hub, "elsewhere");
    assert_eq!(alone(&elsewhere, UNBOUNDED).wait(), Admitted::Yes);
    assert_eq!([&outer, &inner, &innermost, &other].map(Seat::others), [3, 2, 1, 3]);
}

#[test]
fn calls_between_two_attempts_are_company() {
    let hub = hub();
    let [outer, inner, other] = [(); 3].map(|()| Seat::of(hub, DEVICE));
    let _elsewhere = Seat::of(hub, "elsewhere");
    assert!(outer.try_enter(None) && inner.try_enter(Some(outer.node())));
    assert!(inner.has_company() && inner.others() == 0, "it is there, and does nothing");
    drop(other);
    assert!(!inner.has_company(), "the attempts around are no company");
    assert!(outer.has_company());
}

#[test]
fn a_visit_is_seen_when_its_call_is_over() {
    let hub = hub();
    let [own, other] = [(); 2].map(|()| Seat::of(hub, DEVICE));
    assert_eq!(own.visits(), 0);
    assert!(own.try_enter(None));
    assert_eq!(own.visits(), 0, "it is itself");
    let mut before = own.visits();
    let mut is_new = || std::mem::replace(&mut before, own.visits()) != own.visits();
    assert!(other.try_enter(None));
    other.leave();
    assert!(is_new());
    assert_eq!(alone(&other, within(Duration::ZERO)).wait(), Admitted::TimedOut);
    drop(other);
    assert!(is_new() && !is_new(), "also after a wait");
    let inner = Seat::of(hub, DEVICE);
    assert!(inner.try_enter(Some(own.node())));
    drop(inner);
    assert!(!is_new(), "what is inside belongs to it");
    // The same slot, had by calls for as many devices as it knows, this one included.
    for elsewhere in ["1", "2", "3", "4", "5", "6", "7"] {
        assert!(Seat::of(hub, elsewhere).try_enter(None));
    }
    assert!(!is_new(), "devices are told apart, and none is forgotten");
    let inside = Seat::of(hub, "elsewhere");
    assert!(inside.try_enter(None) && Seat::of(hub, DEVICE).try_enter(Some(inside.node())));
    assert!(is_new(), "inside an attempt on another device");
}

#[test]
fn a_trace_that_is_gone_is_no_visit() {
    let hub = hub();
    let [own, other] = [(); 2].map(|()| Seat::of(hub, DEVICE));
    assert!((0..3).all(|_| other.try_enter(None)));
    drop(other);
    let before = own.visits();
    for elsewhere in ["1", "2", "3", "4", "5", "6", "7", "8"] {
        assert!(Seat::of(hub, elsewhere).try_enter(None));
    }
    assert!(own.visits() < before && !own.was_visited_since(before), "other devices took its place");
    let forgotten = own.visits();
    assert!(Seat::of(hub, DEVICE).try_enter(None) && own.was_visited_since(forgotten));
    assert!(own.was_visited_since(before), "it goes on where it was");
}

#[test]
fn one_attempt_of_a_device_is_measured_first() {
    let hub = hub();
    let [one, two] = [(); 2].map(|()| Seat::of(hub, DEVICE));
    let elsewhere = Seat::of(hub, "elsewhere");
    assert!([&one, &two, &elsewhere].iter().all(|seat| seat.try_enter(None)));
    assert!(one.measure() && elsewhere.measure());
    assert!(!two.measure());
    one.measured();
    assert!(!one.measure(), "the second is measured meanwhile");
    two.leave();
    assert!(one.measure(), "it is over");
    assert!(two.try_enter(None));
    one.leave();
    assert!(one.try_enter(None) && two.measure(), "the one that was measured is over");
    drop(two);
    let next = Seat::of(hub, DEVICE);
    assert!(next.try_enter(None) && one.measure(), "a call does not inherit it");
}

#[test]
fn a_nested_attempt_is_never_held_off() {
    let hub = hub();
    let [outer, inner, other, late] = [(); 4].map(|()| Seat::of(hub, DEVICE));
    assert!(outer.try_enter(None));
    let mut task = Task::waiting(alone(&other, UNBOUNDED));
    assert!(inner.try_enter(Some(outer.node())));
    assert!(!late.try_enter(None));
    inner.leave();
    assert_eq!(task.poll_woken(), None);
    outer.leave();
    assert_eq!(task.poll_woken(), Some(Admitted::Yes));
}

#[test]
fn an_attempt_that_is_over_is_nobodys_parent() {
    let hub = hub();
    let [outer, inner, other] = [(); 3].map(|()| Seat::of(hub, DEVICE));
    assert!(outer.try_enter(None));
    let over = outer.node();
    outer.leave();
    assert!(outer.try_enter(None));
    let _task = Task::waiting(alone(&other, UNBOUNDED));
    assert!(!inner.try_enter(Some(over)), "the attempt was over when this one began");
    assert!(inner.try_enter(Some(outer.node())));
}

#[test]
fn two_that_name_each_other_as_parents_are_not_followed_for_ever() {
    let hub = hub();
    let [one, two] = [(); 2].map(|()| Seat::of(hub, DEVICE));
    assert!(one.try_enter(None));
    assert!(two.try_enter(Some(one.node())));
    one.leave();
    assert!(one.try_enter(Some(two.node())));
    assert_eq!([one.others(), two.others()], [0, 1]);
}

#[test]
fn there_are_as_many_slots_as_calls_at_one_time() {
    let hub = hub();
    for _ in 0..3 {
        let seats: Vec<_> = (0..100).map(|_| Seat::of(hub, DEVICE)).collect();
        assert!(seats.iter().all(|seat| seat.try_enter(None)));
        assert!(seats.iter().all(|seat| seat.others() == 99));
        let nodes: HashSet<_> = seats.iter().map(Seat::node).collect();
        assert_eq!(nodes.len(), 100);
    }
    // 8 + 16 + 32 + 64
    assert_eq!(hub.slots(), 120);
}

#[test]
fn a_thread_takes_the_slots_again_that_it_gave_back() {
    let hub = hub();
    let elsewhere = thread::spawn(|| Seat::of(hub, DEVICE)).join().unwrap();
    let taken = || {
        let [outer, inner] = [(); 2].map(|()| Seat::of(hub, DEVICE));
        drop(inner);
        outer.slot.index()
    };
    let first = taken();
    thread::spawn(|| drop(elsewhere)).join().unwrap();
    assert_eq!([(); 3].map(|()| taken()), [first; 3], "though one before it is free");
}

#[test]
fn the_slots_of_threads_that_have_ended_are_taken_again() {
    let hub = hub();
    for _ in 0..100 {
        let one = move || {
            let [outer, inner] = [(); 2].map(|()| Seat::of(hub, DEVICE));
            assert!(outer.try_enter(None) && inner.try_enter(Some(outer.node())));
            thread::spawn(move || drop(outer)).join().unwrap();
        };
        thread::spawn(one).join().unwrap();
    }
    assert_eq!(hub.slots(), 8);
    let seat = Seat::of(hub, DEVICE);
    assert!(seat.try_enter(None));
    assert_eq!(seat.others(), 0);
}
