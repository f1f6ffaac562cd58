//! At the floor, a panic is retried if the call site is known to offer plans, and is otherwise printed once. The order
//! of offers and failures within a call is tested in `tests/loops/rules`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use toma::leaner::{self, Lean};
use toma::{NoCache, execute};

use crate::kit::OUT_OF_MEMORY;
use crate::printed::printed;
use crate::region::Region;

/// Returns the outcome of `run`, and the number of printed panics.
fn outcome<R>(run: impl FnOnce() -> R) -> (Result<R, String>, usize) {
    let (result, printed) = printed(|| catch_unwind(AssertUnwindSafe(run)));
    (result.map_err(|payload| *payload.downcast::<String>().unwrap()), printed)
}

#[test]
fn the_first_panic_of_a_call_site_goes_through_and_the_second_is_tried_again() {
    let site =
        |region: &Arc<Region>| outcome(|| execute::with::<NoCache>().batch(1, |size| region.must_run(size)));
    let region = Region::new(&[10, 5], 5);
    assert_eq!(site(&region), (Err(OUT_OF_MEMORY.to_owned()), 1));
    assert_eq!((region.attempts(), region.plan()), (vec![(1, 0)], 0), "it was printed, so it is passed on");
    assert_eq!(site(&region), (Ok(1), 0));
    assert_eq!(region.attempts(), [(1, 0), (1, 0), (1, 1)]);
}

/// An annotated function is one call site, whichever line calls it.
#[test]
fn the_same_for_an_attribute() {
    #[toma::batch(initial = 4, min = 4, cache = NoCache)]
    fn step(size: usize, region: &Arc<Region>) -> usize {
        region.must_run(size)
    }
    let region = Region::new(&[10, 5], 20);
    assert_eq!(outcome(|| step(&region)), (Err(OUT_OF_MEMORY.to_owned()), 1));
    assert_eq!(outcome(|| step(&region)), (Ok(4), 0));
}

/// A plan that panics when it is asked, and again when it is dropped.
struct Broken;

impl Lean for Broken {
    fn lean(&self) -> bool {
        panic!("broken");
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        panic!("broken for good");
    }
}

#[test]
fn a_handle_that_panics_has_no_plan_and_stops_nothing() {
    let region = Region::new(&[10, 5], 50);
    let (result, _) = outcome(|| {
        execute::with::<NoCache>().batch(20, |size| {
            let result = region.run(size);
            leaner::offer(Arc::new(Broken));
            result
        })
    });
    assert_eq!(result, Ok(Ok(10)));
    assert_eq!(region.attempts(), [(20, 0), (20, 1), (10, 1)], "the handle before it is asked");
}
