//! Ownership and lifetime of offers.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use toma::classify::OutOfMemory;
use toma::leaner::{self, Lean};
use toma::{NoCache, execute, predict};

use crate::region::Region;

/// Returns true if nothing but the test holds the region.
fn is_free(region: &Arc<Region>) -> bool {
    Arc::strong_count(region) == 1
}

#[test]
fn an_offer_ends_with_its_attempt() {
    let region = Region::new(&[10, 5], 50);
    execute::with::<NoCache>().range(0..8, 4, |start, end| {
        assert!(is_free(&region));
        region.run(end - start).unwrap();
        assert!(!is_free(&region));
    });
    assert!(is_free(&region));
    let rows = execute::with::<NoCache>().iter(0..8, 4, |start, end| region.run(end - start));
    for row in rows {
        assert!(row.is_ok() && is_free(&region));
    }
    let _ = execute::with::<NoCache>().max_attempts(1).batch(20, |size| region.run(size));
    assert!(is_free(&region), "nor does a failure keep it");
    assert_eq!(region.asked.load(SeqCst), 0);
}

#[test]
fn a_body_that_gets_over_a_failure_needs_no_leaner_plan() {
    let region = Region::new(&[10, 5], 50);
    let size = execute::with::<NoCache>().batch(8, |size| region.run(size).unwrap_or(0));
    assert_eq!((size, region.plan(), is_free(&region)), (0, 0, true));
}

#[test]
fn outside_of_attempts_and_in_dry_runs_nothing_is_kept() {
    let region = Region::new(&[10, 5], 50);
    leaner::offer(region.clone());
    leaner::repeated(std::time::Duration::from_secs(1));
    leaner::keep_size();
    assert!(is_free(&region));
    let dry = predict::run_dry(|| {
        leaner::offer(region.clone());
        execute::with::<NoCache>().batch(8, |size| region.run(size).unwrap_or(size));
        is_free(&region)
    });
    assert!(dry.is_ok_and(|is_free| is_free));
    execute::with::<NoCache>().batch(8, |_| {
        let dry = predict::run_dry(|| leaner::offer(region.clone()));
        assert!(dry.is_ok() && is_free(&region));
    });
    execute::with::<NoCache>().batch(8, |_| {
        thread::scope(|scope| scope.spawn(|| leaner::offer(region.clone())).join().unwrap());
        assert!(is_free(&region));
    });
}

#[test]
fn the_innermost_attempt_asks() {
    let (outer, inner) = (Region::new(&[1, 1], 500), Region::new(&[10, 5], 50));
    let size = execute::with::<NoCache>().batch(20, |size| {
        outer.run(size)?;
        execute::with::<NoCache>().range(0..size, 10, |start, end| inner.run(end - start).map(drop))?;
        leaner::offer(outer.clone());
        assert_eq!(Arc::strong_count(&outer), 3, "the outer attempt takes offers again");
        Ok::<_, OutOfMemory>(size)
    });
    assert_eq!((size, outer.asked.load(SeqCst)), (Ok(20), 0));
    assert_eq!(inner.attempts(), [(10, 0), (10, 1), (10, 1)]);
    assert!(is_free(&outer) && is_free(&inner));
}

#[test]
fn plans_of_the_outer_body_are_asked_once_the_inner_loop_has_given_up() {
    let (outer, inner) = (Region::new(&[1, 1], 500), Region::new(&[10, 9], 5));
    let mut tries = 0;
    let size = execute::with::<NoCache>().batch(20, |size| {
        tries += 1;
        outer.run(size)?;
        if tries == 3 {
            inner.room.store(500, SeqCst);
        }
        execute::with::<NoCache>().min(4).range(0..8, 4, |start, end| inner.run(end - start).map(drop))?;
        Ok::<_, OutOfMemory>(size)
    });
    assert_eq!(size, Ok(10));
    assert_eq!(outer.attempts(), [(20, 0), (20, 1), (10, 1)]);
    assert_eq!(inner.attempts()[..4], [(4, 0), (4, 1), (4, 1), (4, 1)], "{:?}", inner.attempts());
}

#[test]
fn a_loop_in_a_plan_that_is_asked_has_offers_of_its_own() {
    struct Loops(Arc<Region>);
    impl Lean for Loops {
        fn lean(&self) -> bool {
            execute::with::<NoCache>().batch(8, |size| self.0.run(size)).is_ok()
        }
    }
    let inner = Region::new(&[10, 5], 40);
    let mut tries = 0;
    let size = execute::with::<NoCache>().batch(4, |size| {
        tries += 1;
        leaner::offer(Arc::new(Loops(Arc::clone(&inner))));
        if tries == 1 { Err(OutOfMemory::new(None)) } else { Ok(size) }
    });
    assert_eq!((size, inner.attempts()), (Ok(4), vec![(8, 0), (8, 1)]));
    assert!(is_free(&inner));
}

#[test]
fn threads_do_not_see_each_other() {
    let regions: Vec<_> = (0..2).map(|_| Region::new(&[10, 5, 3], 40)).collect();
    thread::scope(|scope| {
        for region in &regions {
            scope.spawn(|| {
                let run = |start: usize, end: usize| region.run(end - start).map(drop);
                execute::with::<NoCache>().range(0..800, 8, run).unwrap();
            });
        }
    });
    for region in &regions {
        assert_eq!((region.attempts().len(), region.attempts()[1]), (101, (8, 1)));
        assert_eq!(region.asked.load(SeqCst), 1);
    }
}

#[test]
fn an_attempt_that_unwinds_takes_its_offers_along() {
    let region = Region::new(&[10, 5], 500);
    let other = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        execute::with::<NoCache>().batch(8, |size| {
            region.run(size).unwrap();
            if size > 0 {
                std::panic::resume_unwind(Box::new("something else"));
            }
        });
    }));
    assert!(other.is_err() && is_free(&region));
    assert_eq!(region.asked.load(SeqCst), 0);
}
