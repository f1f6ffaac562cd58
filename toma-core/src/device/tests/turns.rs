//! Beginning, ending, and what an attempt sees of others.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::memory::{MemorySource, Reading};

/// Has the one name and the other by turns.
#[derive(Debug)]
struct Named(&'static str, &'static str, AtomicBool);

impl Named {
    fn new(one: &'static str, other: &'static str) -> Self {
        Self(one, other, AtomicBool::new(false))
    }
}

impl MemorySource for Named {
    fn name(&self) -> &str {
        if self.2.fetch_xor(true, Relaxed) { self.1 } else { self.0 }
    }

    fn read(&self) -> std::io::Result<Reading> {
        Ok(Reading::new(10, 10))
    }
}

#[test]
fn devices_are_told_apart_by_their_names() {
    let [one, two] = [(); 2].map(|()| Device::of(&Named::new("told by its name", "")));
    let elsewhere = Device::named("told by another name");
    let turns = [&one, &two, &elsewhere].map(|device| device.try_shared().unwrap());
    assert_eq!(turns.each_ref().map(Turn::others), [1, 1, 0]);
    let there = thread::spawn(|| Device::named("told by its name").running()).join().unwrap();
    assert_eq!(there, 2, "in every thread");
    assert_ne!(one.id(), elsewhere.id());
    assert_eq!(one.id(), two.id());
}

#[test]
fn a_name_that_changes_is_another_device() {
    let source = Named::new("this name", "that name");
    let [this, that] = [(); 2].map(|()| Device::of(&source));
    assert_eq!([this.name(), that.name()], ["this name", "that name"]);
    assert_eq!(Device::of(&source).id(), this.id());
    // Both names in the course of one reservation.
    let reserved = reserve(&source, 10, AGES).unwrap();
    assert_eq!(reserved.device(), "that name");
    assert_eq!(try_reserve(&Named::new("that name", ""), 1).unwrap_err().device(), "that name");
    drop(reserved);
    drop(try_reserve(&Named::new("that name", ""), 10).unwrap());
}

#[test]
fn names_that_are_gone_are_forgotten() {
    let kept: Vec<_> = (0..100).map(|number| Device::named(&format!("kept {number}"))).collect();
    let before = registry::known();
    for number in 0..1000 {
        drop(Device::named(&format!("passing {number}")).try_shared());
    }
    assert!(registry::known() < before + 50, "{}", registry::known());
    for device in &kept {
        assert_eq!(Device::named(device.name()).id(), device.id());
    }
}

#[test]
fn others_are_contention_when_they_ran_before_or_run_or_came_meanwhile() {
    let device = device();
    let before = device.try_shared().unwrap();
    let beside = device.try_shared().unwrap();
    assert!(before.has_contention() && beside.has_contention());
    drop(before);
    assert!(beside.has_contention(), "it ran as this one began");
    drop(beside);

    let own = device.try_shared().unwrap();
    assert!(!own.has_contention() && own.others() == 0);
    drop(device.begin_beside());
    assert!(own.has_contention(), "it has begun since, and ended before this one is judged");
    drop(own);
    assert!(is_empty(&device));
}

#[test]
fn a_renewed_turn_sees_what_comes_from_then_on() {
    let device = device();
    let mut own = exclusive(&device).wait().0;
    assert!(own.is_exclusive() && !own.has_contention());
    let never_waits = device.begin_beside();
    assert!(own.has_contention());
    own.renew();
    assert!(own.has_contention(), "it still runs");
    drop(never_waits);
    own.renew();
    assert!(!own.has_contention() && own.is_exclusive());
}

#[test]
fn attempts_inside_a_turn_see_others_but_not_the_turn_around() {
    let device = device();
    let outer = device.try_shared().unwrap();
    let inner = device.seen();
    assert!(!device.has_contention(inner));
    drop(device.try_shared());
    assert!(device.has_contention(inner) && outer.has_contention());
    assert!(!device.has_contention(device.seen()), "it was over as this one began");
}

#[test]
fn the_device_knows_how_many_run() {
    let device = device();
    let turns: Vec<_> = (0..100).map(|_| device.try_shared().unwrap()).collect();
    assert_eq!((device.running(), turns[0].others()), (100, 99));
    drop(turns);
    assert!(device.running() == 0 && is_empty(&device));
}

#[test]
fn one_attempt_of_a_device_is_measured_at_a_time() {
    let device = device();
    let first = device.measure();
    assert!(first.is_some() && device.measure().is_none());
    drop(first);
    let second = device.measure().unwrap();
    assert!(device.measure().is_none());
    drop(second);
    assert!(is_empty(&device));
}

#[test]
fn the_outermost_attempt_alone_promises_and_on_its_device_alone() {
    let [here, there] = [device(), device()];
    let [outer, inner] = [here.try_shared().unwrap(), there.begin_beside()];
    let nothing = Enclosing::default();
    assert!(!nothing.holds_any());

    let inside = enclosed(nothing, &outer, true);
    assert!(inside.holds(here.id()) && !inside.holds(there.id()));
    let promised = inside.promised_on(here.id());
    assert!(promised.is_some() && inside.promised_on(there.id()).is_none());

    let deeper = enclosed(inside, &inner, true);
    assert!(deeper.holds(here.id()) && deeper.holds(there.id()));
    assert_eq!(deeper.promised_on(here.id()), promised);
    assert!(deeper.promised_on(there.id()).is_none(), "it never waits");

    let without = enclosed(enclosed(nothing, &outer, false), &inner, true);
    assert!([here.id(), there.id()].iter().all(|&device| without.promised_on(device).is_none()));
}

#[test]
fn deeper_nesting_than_can_be_told_counts_as_another_device() {
    let devices: Vec<_> = (0..6).map(|_| device()).collect();
    let turns: Vec<_> = devices.iter().map(|device| device.try_shared().unwrap()).collect();
    let enclosing = turns.iter().fold(Enclosing::default(), |outer, turn| enclosed(outer, turn, true));
    let held: Vec<_> = devices.iter().map(|device| enclosing.holds(device.id())).collect();
    assert_eq!(held, [true, true, true, true, false, false]);
    assert!(enclosing.holds_any() && enclosing.promised_on(devices[0].id()).is_some());
}

#[test]
fn a_turn_is_marked_until_it_is_renewed_or_ends() {
    let device = device();
    let [mut outer, other] = [(); 2].map(|()| device.try_shared().unwrap());
    let promised = enclosed(Enclosing::default(), &outer, true).promised_on(device.id()).unwrap();
    assert!(!outer.is_marked());
    device.mark(promised);
    device.mark(promised);
    assert!(outer.is_marked() && !other.is_marked());
    outer.renew();
    assert!(!outer.is_marked());
    device.mark(promised);
    drop(outer);
    drop(other);
    assert!(is_empty(&device));
    assert!(!device.try_shared().unwrap().is_marked());
}
