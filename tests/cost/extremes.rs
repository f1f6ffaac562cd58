//! Costs at their limits, and costs that fail.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use toma::classify::OutOfMemory;
use toma::{GlobalCache, NoCache, execute};

#[test]
fn sums_beyond_every_integer() {
    let costs = [u64::MAX, u64::MAX, 1, 1, u64::MAX, 0];
    let pieces = |step| {
        let form = execute::with::<NoCache>().by_cost(|i| costs[i]);
        form.map(0..costs.len(), step, |start, end| (start, end))
    };
    assert_eq!(pieces(2), [(0, 1), (1, 2), (2, 4), (4, 5), (5, 6)]);
    assert_eq!(pieces(usize::MAX), [(0, 1), (1, 2), (2, 4), (4, 6)]);
}

#[test]
fn an_infinite_cost_that_fails_is_left_out() {
    let costs = [1, u64::MAX, 1];
    let cache = GlobalCache::new();
    let mut left_out = Vec::new();
    let form =
        execute::with::<NoCache>().cache(&cache).by_cost(|i| costs[i]).set_aside(|item| left_out.push(item));
    let done = form.map(0..3, usize::MAX, |start, end| {
        if (start..end).contains(&1) { Err(OutOfMemory::new(None)) } else { Ok(start..end) }
    });
    assert_eq!(done.unwrap(), [0..1, 2..3]);
    assert_eq!((left_out[0].index, left_out[0].cost), (1, u64::MAX));
}

#[test]
fn a_cost_that_panics_costs_no_work() {
    let cache = GlobalCache::new();
    let ran = Cell::new(false);
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let form = execute::with::<NoCache>()
            .cache(&cache)
            .by_cost(|i| if i == 6 { panic!("of item 6") } else { 1 });
        form.range(3..9, 2, |_, _| ran.set(true));
    }));
    assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"of item 6"));
    assert!(!ran.get() && cache.entries().is_empty());
}

#[test]
fn a_cost_that_runs_out_of_memory_is_no_failure_of_the_body() {
    let calls = Cell::new(0);
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let form = execute::with::<NoCache>().by_cost(|_| -> u64 {
            calls.set(calls.get() + 1);
            panic!("CUDA out of memory. Tried to allocate 2.00 GiB")
        });
        form.range(0..9, 2, |_, _| ());
    }));
    assert!(panic.is_err());
    assert_eq!(calls.get(), 1);
}

#[test]
fn a_negative_cost_is_named() {
    let panic = catch_unwind(|| {
        execute::with::<NoCache>().by_cost(|i| 2 - i64::try_from(i).unwrap()).range(1..9, 4, |_, _| ());
    });
    let text = *panic.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(text, "cost of item 3: must not be negative");
}

#[test]
fn more_items_than_memory_has_room_for() {
    let panic = catch_unwind(|| {
        execute::with::<NoCache>().by_cost(|_| 1).range(0..usize::MAX, 4, |_, _| ());
    });
    let text = *panic.unwrap_err().downcast::<String>().unwrap();
    assert!(text.starts_with(&format!("by_cost: the sums of {} items: ", usize::MAX)), "{text}");
}

#[test]
fn sizes_are_checked_as_ever() {
    let panic = catch_unwind(|| execute::with::<NoCache>().by_cost(|_| 1).range(0..4, 0, |_, _| ()));
    assert_eq!(*panic.unwrap_err().downcast::<String>().unwrap(), "initial 0: must be at least 1");
    let range = std::hint::black_box(4)..2;
    let panic = catch_unwind(|| execute::with::<NoCache>().by_cost(|_| 1).range(range, 1, |_, _| ()));
    assert_eq!(*panic.unwrap_err().downcast::<String>().unwrap(), "start 4: must be at most end 2");
}

/// Costs say nothing of where to cut a piece of items that cost nothing, so it is halved.
#[test]
fn what_costs_nothing_is_cut_by_count() {
    let sizes = |items: usize, limit: usize| {
        let mut sizes = Vec::new();
        let form = execute::with::<NoCache>().by_cost(|_| 0);
        let result = form.range(0..items, 4, |start, end| {
            sizes.push(end - start);
            if end - start > limit { Err(OutOfMemory::new(None)) } else { Ok(()) }
        });
        (sizes, result.is_ok())
    };
    assert_eq!(sizes(11, 3), (vec![11, 5, 2, 2, 2, 2, 2, 1], true), "and stays so");
    assert_eq!(sizes(8, 0), (vec![8, 4, 2, 1], false), "where nothing works at all, the first goes through");
}
