//! Costs at their limits, and costs that fail.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use toma::classify::OutOfMemory;
use toma::device::{Ladder, falls_back};
use toma::policy::{Decay, Policy};
use toma::{Adaptive, Bisect, GlobalCache, Halve, NoCache, Throughput, execute, report};

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
        execute::with::<NoCache>().cache(&cache).by_cost(|i| costs[i]).left_out(|item| left_out.push(item));
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
    let panic =
        catch_unwind(|| execute::with::<NoCache>().name("packs").by_cost(|_| 1).range(0..4, 0, |_, _| ()));
    assert_eq!(*panic.unwrap_err().downcast::<String>().unwrap(), "packs: initial 0: must be at least 1");
    let range = std::hint::black_box(4)..2;
    let panic =
        catch_unwind(|| execute::with::<NoCache>().name("packs").by_cost(|_| 1).range(range, 1, |_, _| ()));
    assert_eq!(*panic.unwrap_err().downcast::<String>().unwrap(), "packs: start 4: must be at most end 2");
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

#[test]
fn one_item() {
    let fails = |_, _| Err::<(), _>(OutOfMemory::new(None));
    let mut left_out = Vec::new();
    let form =
        execute::with::<NoCache>().by_cost(|_| 7).left_out(|item| left_out.push((item.index, item.cost)));
    assert_eq!(form.map(3..4, 5, fails).unwrap(), []);
    assert_eq!(left_out, [(3, 7)]);
    execute::with::<NoCache>().by_cost(|_| 7).range(3..4, 5, fails).unwrap_err();
    execute::with::<NoCache>().by_cost(|_| 0).range(3..4, 5, fails).unwrap_err();
    assert_eq!(report::last().unwrap().attempts, 1);
    assert_eq!(execute::with::<NoCache>().by_cost(|_| u64::MAX).map(3..4, 5, |s, e| (s, e)), [(3, 4)]);
}

/// Too few attempts to find the item: its failure goes through where the search stops.
#[test]
fn max_attempts_may_end_before_an_item_is_found() {
    let attempts = |most| {
        let form = execute::with::<NoCache>().max_attempts(most).by_cost(|_| 2).left_out(|_| ());
        let fails = |_, end| if end > 2 { Err(OutOfMemory::new(None)) } else { Ok(()) };
        let result = form.range(0..3, 8, fails);
        (result.is_ok(), report::last().unwrap().attempts)
    };
    // 0..3, then 0..1, 1..2 and 2..3, the last of which is alone.
    assert_eq!([1, 2, 3].map(attempts), [(false, 1), (true, 4), (true, 4)]);
}

fn any_policy() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("halve"), Just("bisect"), Just("decay"), Just("adaptive"), Just("throughput")]
}

fn named(policy: &str) -> Box<dyn Policy> {
    match policy {
        "halve" => Box::new(Halve),
        "bisect" => Box::new(Bisect::within(0.0)),
        "decay" => Box::new(Decay::new(0.6)),
        "adaptive" => Box::new(Adaptive::default()),
        _ => Box::new(Throughput::default()),
    }
}

fn any_cost() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), 0..100_u64, any::<u64>(), Just(u64::MAX), Just(u64::MAX / 2)]
}

fn any_size() -> impl Strategy<Value = usize> {
    prop_oneof![1..200_usize, any::<usize>().prop_map(|size| size.max(1)), Just(usize::MAX)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever items cost and whichever fit nowhere: each is done once and in order or left out, and it ends.
    #[test]
    fn any_costs(
        (costs, initial) in (prop::collection::vec(any_cost(), 0..60), any_size()),
        oversize in prop::collection::hash_set(0..60_usize, 0..6),
        (most, policy, falls_back_too) in (1..60_usize, any_policy(), any::<bool>()),
    ) {
        let (cache, mut attempts) = (GlobalCache::new(), 0);
        for _ in 0..2 {
            let mut left_out = Vec::new();
            let ladder = Ladder::default().fallback(falls_back_too);
            let form = execute::with::<NoCache>().cache(&cache).policy(named(policy)).ladder(ladder);
            let form = form.by_cost(|item| costs[item]).left_out(|item| left_out.push(item.index));
            let rows = form.iter(0..costs.len(), initial, |start, end| {
                attempts += 1;
                let fits = end - start <= most && (start..end).all(|item| !oversize.contains(&item));
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
            prop_assert!(left_out.iter().all(|item| oversize.contains(item)), "{:?}", left_out);
            prop_assert!(!is_failed || !falls_back_too, "all fits elsewhere");
        }
        prop_assert!(attempts <= 2 * 200 * (costs.len() + 1), "{} attempts", attempts);
    }
}
