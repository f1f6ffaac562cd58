//! Costs at their limits, and costs that fail.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use proptest::sample::select;
use toma::classify::OutOfMemory;
use toma::device::{Ladder, falls_back};
use toma::{GlobalCache, NoCache, execute, report};

use crate::kit::panic_of;

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
fn mistakes_are_named() {
    let form = || execute::with::<NoCache>().name("packs");
    let text = panic_of(|| form().by_cost(|i| 2 - i64::try_from(i).unwrap()).range(1..9, 4, |_, _| ()));
    assert_eq!(text, "cost of item 3: must be from 0 to 2^64 - 1");
    let text = panic_of(|| form().by_cost(|_| 1).range(0..usize::MAX, 4, |_, _| ()));
    assert!(text.starts_with(&format!("by_cost: the sums of {} items: ", usize::MAX)), "{text}");
    let text = panic_of(|| form().by_cost(|_| 1).range(0..4, 0, |_, _| ()));
    assert_eq!(text, "packs: initial 0: must be at least 1");
    let range = std::hint::black_box(4)..2;
    let text = panic_of(|| form().by_cost(|_| 1).range(range, 1, |_, _| ()));
    assert_eq!(text, "packs: start 4: must be at most end 2");
}

#[test]
fn one_item() {
    let fails = |_, _| Err::<(), _>(OutOfMemory::new(None));
    for cost in [7, u64::MAX] {
        let mut left_out = Vec::new();
        let form = execute::with::<NoCache>().by_cost(|_| cost);
        let form = form.left_out(|item| left_out.push((item.index, item.cost)));
        assert_eq!(form.map(3..4, 5, fails).unwrap(), []);
        assert_eq!(left_out, [(3, cost)]);
        execute::with::<NoCache>().by_cost(|_| cost).range(3..4, 5, fails).unwrap_err();
        assert_eq!(execute::with::<NoCache>().by_cost(|_| cost).map(3..4, 5, |s, e| (s, e)), [(3, 4)]);
    }
    // At the floor the failure goes through at once.
    for cost in [0, 1] {
        let form = execute::with::<NoCache>().by_cost(|_| cost).left_out(|item| panic!("{item}"));
        form.range(3..4, 5, fails).unwrap_err();
        assert_eq!(report::last().unwrap().attempts, 1);
    }
}

fn any_cost() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), 0..100_u64, any::<u64>(), Just(u64::MAX), Just(u64::MAX / 2)]
}

fn any_size() -> impl Strategy<Value = usize> {
    prop_oneof![1..200_usize, any::<usize>().prop_map(|size| size.max(1)), Just(usize::MAX)]
}

proptest! {
    /// Whatever items cost and whichever fit nowhere, each is done once and in order or is left out, and the call ends.
    #[test]
    fn any_costs(
        (costs, initial) in (prop::collection::vec(any_cost(), 0..60), any_size()),
        to_leave_out in prop::collection::hash_set(0..60_usize, 0..6),
        (most, policy, falls_back_too) in (1..60_usize, select(&crate::cost::POLICIES[..]), any::<bool>()),
    ) {
        let (cache, mut attempts) = (GlobalCache::new(), 0);
        for _ in 0..2 {
            let mut left_out = Vec::new();
            let ladder = Ladder::default().fallback(falls_back_too);
            let form = execute::with::<NoCache>().cache(&cache).policy(policy()).ladder(ladder);
            let form = form.by_cost(|item| costs[item]).left_out(|item| left_out.push(item.index));
            let rows = form.iter(0..costs.len(), initial, |start, end| {
                attempts += 1;
                let fits = end - start <= most && (start..end).all(|item| !to_leave_out.contains(&item));
                if fits || falls_back() { Ok(start..end) } else { Err(OutOfMemory::new(None)) }
            });
            let (mut done, mut is_failed) = (Vec::new(), false);
            for row in rows {
                match row {
                    Ok(row) => done.extend(row),
                    Err(_) => is_failed = true,
                }
            }
            prop_assert!(done.is_sorted_by(|one, other| one < other), "{:?}", done);
            let mut all = [&*done, &*left_out].concat();
            all.sort_unstable();
            let until = report::last().unwrap();
            prop_assert!(all.iter().copied().eq(0..until.done + left_out.len()), "{:?}", all);
            prop_assert_eq!(all.len() < costs.len(), is_failed);
            prop_assert!(left_out.iter().all(|item| to_leave_out.contains(item)), "{:?}", left_out);
            prop_assert!(!is_failed || !falls_back_too, "all fits elsewhere");
        }
        prop_assert!(attempts <= 2 * 200 * (costs.len() + 1), "{} attempts", attempts);
    }
}
