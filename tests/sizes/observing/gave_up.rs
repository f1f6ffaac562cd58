//! Reports and events of calls that give up, which are the same for each form.

use expect_test::expect;

use crate::observing::stream::assert_received;
use crate::observing::world::{FINE, OTHER, OUT_OF_MEMORY, POISONED, TRANSIENT_SMALL};

#[test]
fn at_the_floor() {
    let expected = expect![[r#"
        started: initial 8, start 8, length Some(12), remembered None
        attempt 0..8: failed 0..8: OutOfMemory, requested Some(4096), free Some(512): the script says so
        at 8: shrinks to 4
        attempt 0..4: failed 0..4: OutOfMemory, requested Some(4096), free Some(512): the script says so
        does not fit at 4: needs 4096, free 512
        at 4: gives up: no smaller size is allowed
        finished: 2 attempts, 2 out of memory
    "#]];
    assert_received(&[OUT_OF_MEMORY; 2], OUT_OF_MEMORY, &expected, |form, world| {
        world.min = 4;
        form(world, 12)
    });
}

#[test]
fn after_pieces_that_succeeded() {
    let expected = expect![[r#"
        started: initial 8, start 8, length Some(12), remembered None
        attempt 0..8: failed 0..8: OutOfMemory, requested Some(4096), free Some(512): the script says so
        at 8: shrinks to 4
        attempt 0..4: succeeded 0..4
        attempt 4..8: failed 4..8: Other, requested None, free None: the script says so
        at 4: gives up: not out of memory
        settled 4
        finished: 3 attempts, 1 out of memory
    "#]];
    assert_received(&[OUT_OF_MEMORY, FINE, OTHER], OTHER, &expected, |form, world| form(world, 12));
}

#[test]
fn on_a_poisoned_device() {
    let expected = expect![[r#"
        started: initial 8, start 8, length Some(12), remembered None
        attempt 0..8: failed 0..8: Poisoned, requested None, free None: the script says so
        at 8: gives up: the device context is poisoned
        finished: 1 attempts, 0 out of memory
    "#]];
    assert_received(&[POISONED], POISONED, &expected, |form, world| form(world, 12));
}

#[test]
fn on_a_transient_failure_that_is_not_about_memory() {
    let expected = expect![[r#"
        started: initial 8, start 8, length Some(12), remembered None
        attempt 0..8: failed 0..8: Transient, requested Some(16), free Some(512): the script says so
        at 8: tries it once more
        attempt 0..8: failed 0..8: Transient, requested Some(16), free Some(512): the script says so
        at 8: gives up: failed again at the same size, and memory is not low
        finished: 2 attempts, 0 out of memory
    "#]];
    assert_received(&[TRANSIENT_SMALL; 2], TRANSIENT_SMALL, &expected, |form, world| form(world, 12));
}
