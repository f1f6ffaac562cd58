//! Every event of a call, in order and with every field, which is the same for each form.

use expect_test::{Expect, expect};
use toma::Bisect;

use crate::observing::world::{FINE, FORMS, Fate, Form, OUT_OF_MEMORY, TRANSIENT_LARGE, World};

/// Runs each form in a world of its own and compares its events.
pub(crate) fn assert_received(
    script: &[Fate],
    ends: Fate,
    expected: &Expect,
    call: impl Fn(Form, &mut World) -> Fate,
) {
    let received = FORMS.map(|(name, form)| {
        let mut world = World::new(script.iter().copied());
        assert_eq!(call(form, &mut world), ends, "{name}");
        world.record.take()
    });
    expected.assert_eq(&received[0]);
    for ((name, _), other) in FORMS.iter().zip(&received) {
        assert_eq!(*other, received[0], "{name}");
    }
}

#[test]
fn success() {
    let expected = expect![[r#"
        started: initial 8, start 8, length Some(20), remembered None
        attempt 0..8: succeeded 0..8
        attempt 8..16: succeeded 8..16
        attempt 16..20: succeeded 16..20
        finished: 3 attempts, 0 out of memory
    "#]];
    assert_received(&[], FINE, &expected, |form, world| form(world, 20));
}

#[test]
fn nothing_to_do() {
    let expected = expect![[r#"
        started: initial 0, start 0, length Some(0), remembered None
        finished: 0 attempts, 0 out of memory
    "#]];
    assert_received(&[], FINE, &expected, |form, world| form(world, 0));
}

#[test]
fn out_of_memory_shrinks_and_settles() {
    let expected = expect![[r#"
        started: initial 8, start 8, length Some(12), remembered None
        attempt 0..8: failed 0..8: OutOfMemory, requested Some(4096), free Some(512): the script says so
        at 8: shrinks to 4
        attempt 0..4: succeeded 0..4
        attempt 4..8: succeeded 4..8
        attempt 8..12: succeeded 8..12
        settled 4
        finished: 4 attempts, 1 out of memory
    "#]];
    assert_received(&[OUT_OF_MEMORY], FINE, &expected, |form, world| form(world, 12));
}

#[test]
fn a_transient_failure_that_repeats_shrinks_when_memory_is_low() {
    let expected = expect![[r#"
        started: initial 8, start 8, length Some(8), remembered None
        attempt 0..8: failed 0..8: Transient, requested Some(4096), free Some(512): the script says so
        at 8: tries it once more
        attempt 0..8: failed 0..8: Transient, requested Some(4096), free Some(512): the script says so
        at 8: shrinks to 4
        attempt 0..4: succeeded 0..4
        attempt 4..8: succeeded 4..8
        settled 4
        finished: 4 attempts, 0 out of memory
    "#]];
    assert_received(&[TRANSIENT_LARGE; 2], FINE, &expected, |form, world| form(world, 8));
}

#[test]
fn bisect_probes() {
    let expected = expect![[r#"
        started: initial 8, start 8, length Some(24), remembered None
        attempt 0..8: failed 0..8: OutOfMemory, requested Some(4096), free Some(512): the script says so
        at 8: shrinks to 4
        attempt 0..4: succeeded 0..4
        probe 4 to 6
        attempt 4..10: succeeded 4..10
        probe 6 to 7
        attempt 10..17: succeeded 10..17
        attempt 17..24: succeeded 17..24
        settled 7
        finished: 5 attempts, 1 out of memory
    "#]];
    assert_received(&[OUT_OF_MEMORY], FINE, &expected, |form, world| {
        world.policy = Box::new(Bisect::default());
        form(world, 24)
    });
}

#[test]
fn a_cache_hit_starts_at_what_was_settled() {
    let expected = expect![[r#"
        started: initial 8, start 2, length Some(8), remembered Some(2)
        attempt 0..2: succeeded 0..2
        attempt 2..4: succeeded 2..4
        attempt 4..6: succeeded 4..6
        attempt 6..8: succeeded 6..8
        finished: 4 attempts, 0 out of memory
    "#]];
    assert_received(&[OUT_OF_MEMORY], FINE, &expected, |form, world| {
        form(world, 4)?;
        world.record.take();
        form(world, 8)
    });
}

#[test]
fn a_batch_has_no_length() {
    let world = World::new([OUT_OF_MEMORY]);
    assert_eq!(world.batch(), Ok(4));
    expect![[r#"
        started: initial 8, start 8, length None, remembered None
        attempt 0..8: failed 0..8: OutOfMemory, requested Some(4096), free Some(512): the script says so
        at 8: shrinks to 4
        attempt 0..4: succeeded 0..4
        settled 4
        finished: 2 attempts, 1 out of memory
    "#]]
    .assert_eq(&world.record.take());
}

#[test]
fn a_batch_probes_from_call_to_call() {
    let mut world = World::new([OUT_OF_MEMORY]);
    world.policy = Box::new(Bisect::default());
    assert_eq!(world.batch(), Ok(4));
    world.record.take();
    assert_eq!(world.batch(), Ok(6));
    expect![[r#"
        started: initial 8, start 6, length None, remembered Some(4)
        probe 4 to 6
        attempt 0..6: succeeded 0..6
        settled 6
        finished: 1 attempts, 0 out of memory
    "#]]
    .assert_eq(&world.record.take());
}

#[test]
fn the_events_of_a_call_share_a_number_and_the_name() {
    for (form, run) in FORMS {
        let world = World::new([OUT_OF_MEMORY]);
        run(&world, 8).unwrap();
        let first = world.record.received();
        assert!(
            first.iter().all(|received| (received.call, &*received.name) == (first[0].call, "work")),
            "{form}"
        );
        run(&world, 8).unwrap();
        let second = &world.record.received()[first.len()..];
        assert!(second.iter().all(|received| received.call == second[0].call), "{form}");
        assert_ne!(first[0].call, second[0].call, "{form}");
    }
}

#[test]
fn a_floor_above_the_remembered_size_is_no_probe() {
    let expected = expect![[r#"
        started: initial 8, start 4, length Some(8), remembered Some(2)
        attempt 0..4: succeeded 0..4
        attempt 4..8: succeeded 4..8
        finished: 2 attempts, 0 out of memory
    "#]];
    assert_received(&[OUT_OF_MEMORY; 2], FINE, &expected, |form, world| {
        form(world, 8)?;
        world.record.take();
        world.min = 4;
        form(world, 8)
    });
}
