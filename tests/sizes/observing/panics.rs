//! Events and reports when the body or the observer panics, or the future is dropped.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Waker};

use expect_test::expect;
use toma::{NoCache, execute};

use crate::observing::record::Record;
use crate::observing::world::{World, awaited};

#[test]
fn a_panic_that_means_out_of_memory_shrinks() {
    let record = Record::default();
    execute::with::<NoCache>().observer(&record).name("work").range(0..4, 4, |start, end| {
        assert!(end - start < 4, "CUDA out of memory. Tried to allocate 2.00 GiB");
    });
    let received = record.take();
    let (before, after) = received.split_once(", free Some(").expect("the host can be read");
    let (_bytes, after) = after.split_once(')').unwrap();
    expect![[r#"
        started: initial 4, start 4, length Some(4), remembered None
        attempt 0..4: failed 0..4: OutOfMemory, requested Some(2147483648), free HOST: CUDA out of memory. Tried to allocate 2.00 GiB
        at 4: shrinks to 2
        attempt 0..2: succeeded 0..2
        attempt 2..4: succeeded 2..4
        finished: 3 attempts, 1 out of memory
    "#]].assert_eq(&format!("{before}, free HOST{after}"));
}

#[test]
fn a_panic_that_goes_through_is_reported_to_the_end() {
    let record = Record::default();
    let result = catch_unwind(AssertUnwindSafe(|| {
        execute::with::<NoCache>().observer(&record).name("work").range(0..4, 2, |start, _end| {
            assert!(start < 2, "a mistake");
        });
    }));
    assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"a mistake"));
    expect![[r#"
        started: initial 2, start 2, length Some(4), remembered None
        attempt 0..2: succeeded 0..2
        attempt 2..4: failed 2..4: Other, requested None, free None: a mistake
        at 2: gives up: not out of memory
        finished: 2 attempts, 0 out of memory
    "#]]
    .assert_eq(&record.take());
}

#[test]
fn a_future_that_is_dropped_is_finished() {
    let world = World::new([]);
    {
        let mut future = pin!(awaited(0, 8, &world));
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    expect![[r#"
        started: initial 8, start 8, length Some(8), remembered None
        attempt 0..8
        finished: 0 attempts, 0 out of memory
    "#]]
    .assert_eq(&world.record.take());
}
