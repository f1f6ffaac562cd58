//! Batches that are padded to their longest item, in order and in buckets.

use std::cell::{Cell, RefCell};
use std::panic::catch_unwind;

use proptest::collection::vec;
use proptest::prelude::*;
use toma::classify::OutOfMemory;
use toma::ranks::threads;
use toma::{Adaptive, GlobalCache, NoCache, execute, report};

use crate::kit::{fits, panic_of};

const BUCKETS: [fn(u64) -> u64; 4] = [u64::next_power_of_two, |length| length, |length| length / 10, |_| 0];

/// Returns the memory of a batch of these items, with dense attention or without.
fn taken(lengths: &[u64], items: &[usize], is_dense: bool) -> u64 {
    let longest = items.iter().map(|&item| lengths[item].max(1)).max().unwrap();
    items.len() as u64 * if is_dense { longest * longest } else { longest }
}

proptest! {
    /// Tested for any lengths, memory, buckets and units of size.
    #[test]
    fn each_item_has_its_own_value_in_its_own_place(
        lengths in vec(0_u64..40, 0..60),
        (limit, initial) in (1_u64..2000, 1_usize..4000),
        (start, bucket) in (0_usize..5, 0..BUCKETS.len()),
        [is_dense, is_squared, takes_left_out] in any::<[bool; 3]>(),
    ) {
        let bucket = BUCKETS[bucket];
        let items = start.min(lengths.len())..lengths.len();
        let form = execute::with::<NoCache>().by_padded_cost(|item| lengths[item]);
        let form = if is_squared { form.squared() } else { form };
        let body = |items: &[usize]| {
            assert!(items.iter().all(|&item| bucket(lengths[item].max(1)) == bucket(lengths[items[0]].max(1))));
            assert!(items.is_sorted_by_key(|&item| std::cmp::Reverse(lengths[item].max(1))));
            if taken(&lengths, items, is_dense) > limit { return Err(OutOfMemory::new(None)) }
            Ok(items.iter().map(|item| item * 2).collect::<Vec<_>>())
        };
        let fits = |item: &usize| taken(&lengths, &[*item], is_dense) <= limit;
        let mut too_long = Vec::new();
        if takes_left_out {
            let form = form.left_out(|item| too_long.push(item.index)).bucket_by(bucket);
            let values = form.map(items.clone(), initial, body).unwrap();
            prop_assert_eq!(values, items.clone().map(|item| fits(&item).then_some(item * 2)).collect::<Vec<_>>());
            too_long.sort_unstable();
            prop_assert_eq!(too_long, items.filter(|item| !fits(item)).collect::<Vec<_>>());
        } else {
            let values = form.bucket_by(bucket).map(items.clone(), initial, body);
            let all_fit = items.clone().all(|item| fits(&item));
            prop_assert_eq!(values.ok(), all_fit.then(|| items.map(|item| item * 2).collect::<Vec<_>>()));
        }
    }

    /// Pieces in order are as long as the step allows.
    #[test]
    fn pieces_in_order_are_as_full_as_the_step_allows(lengths in vec(0_u64..40, 0..60), step in 1_usize..400) {
        let form = execute::with::<NoCache>().by_padded_cost(|item| lengths[item]);
        let pieces = form.map(0..lengths.len(), step, |start, end| (start, end));
        let cost = |start, end| taken(&lengths, &(start..end).collect::<Vec<_>>(), false);
        let mut expected_start = 0;
        for (start, end) in pieces {
            prop_assert!(start == expected_start && (end == start + 1 || cost(start, end) <= step as u64));
            prop_assert!(end == lengths.len() || cost(start, end + 1) > step as u64);
            expected_start = end;
        }
        prop_assert_eq!(expected_start, lengths.len());
    }
}

/// Returns the number of failures of a call on texts of these lengths, of which pieces up to `limit` with padding fit.
fn failures(cache: &GlobalCache, lengths: &[u64], initial: usize, limit: u64) -> usize {
    let failures = Cell::new(0);
    let form = execute::with::<NoCache>().cache(cache).by_padded_cost(|item| lengths[item]).in_buckets();
    let body = |items: &[usize]| {
        if taken(lengths, items, false) > limit {
            failures.set(failures.get() + 1);
            return Err(OutOfMemory::new(None));
        }
        Ok(vec![(); items.len()])
    };
    assert_eq!(form.map(0..lengths.len(), initial, body).unwrap().len(), lengths.len());
    failures.get()
}

#[test]
fn each_bucket_remembers_its_size_and_begins_near_that_of_its_neighbor() {
    let cache = GlobalCache::new();
    let lengths: Vec<u64> = (0..600).map(|item| [100, 60, 30][item % 3]).collect();
    // 12,800 is halved four times. Each later bucket begins with twice the step of the one before it.
    let mut of_call = [0; 2].map(|_| failures(&cache, &lengths, 12_800, 800));
    assert_eq!(of_call, [4 + 1 + 1, 0]);
    assert_eq!(cache.entries().len(), 3);
    // Another limit is learned anew, bucket by bucket.
    of_call = [0; 2].map(|_| failures(&cache, &lengths, 12_800, 400));
    assert_eq!(of_call, [3, 0]);
}

#[test]
fn a_bucket_that_remembers_goes_on_from_its_own_size() {
    let cache = GlobalCache::new();
    let most = |lengths: &[u64]| {
        let mut most = 0;
        let form = execute::with::<NoCache>().cache(&cache).by_padded_cost(|item| lengths[item]).in_buckets();
        let done = form.map(0..lengths.len(), 100_000, |items| {
            let fitting = fits(items.len(), if lengths[items[0]] == 100 { 10 } else { 300 });
            fitting.map(|()| {
                most = most.max(items.len());
                items.to_vec()
            })
        });
        done.unwrap();
        most
    };
    assert_eq!(most(&[50; 1000]), 250);
    let both: Vec<_> = [100; 100].into_iter().chain([50; 1000]).collect();
    assert_eq!([most(&both), most(&both)], [250; 2], "another bucket has met a limit");
}

#[test]
fn a_bucket_is_one_call_whatever_its_function_is() {
    let mut reports = Vec::new();
    let form = execute::with::<NoCache>().by_padded_cost(|item| item + 1).bucket_by(|length| length % 2);
    assert_eq!(form.reports(&mut reports).map(0..6, 99, <[usize]>::to_vec), [0, 1, 2, 3, 4, 5]);
    assert_eq!(
        reports.iter().map(|(bucket, report)| (*bucket, report.done)).collect::<Vec<_>>(),
        [(0, 3), (1, 3)]
    );
    let form = execute::with::<NoCache>().by_padded_cost(|item| u64::MAX - item as u64).in_buckets();
    assert_eq!(form.map(0..3, 99, <[usize]>::to_vec), [0, 1, 2]);
}

/// A policy that is asked after each piece needs the number of items left.
#[test]
fn many_pieces_take_no_time_that_grows_with_their_square() {
    let form = execute::with::<NoCache>().policy(Adaptive::default()).by_padded_cost(|_| 10);
    assert_eq!(form.map(0..200_000, 10, |start, end| end - start).len(), 200_000);
}

#[test]
fn buckets_are_distinguished_from_those_of_other_keys() {
    let cache = GlobalCache::new();
    let of_key = |key: u32| {
        let form = execute::with::<NoCache>().cache(&cache).key(key).by_padded_cost(|_| 3).in_buckets();
        form.map(0..4, 12, |items| fits(items.len(), 2).map(|()| items.to_vec()))
    };
    assert_eq!([of_key(1), of_key(2)].map(Result::unwrap), [[0, 1, 2, 3]; 2]);
    assert_eq!(cache.entries().len(), 2);
}

#[test]
fn panics_and_plain_values() {
    let form = || execute::with::<NoCache>().by_padded_cost(|item| item).in_buckets();
    // A panic that is classified as out of memory is a failed attempt like any other.
    let values = form().map(0..9, 100, |items| {
        assert!(items.len() < 3, "CUDA out of memory. Tried to allocate 2.00 GiB");
        items.to_vec()
    });
    assert_eq!(values, (0..9).collect::<Vec<_>>());
    let other = catch_unwind(|| form().map(0..9, 100, |_| -> Vec<()> { panic!("a mistake") }));
    assert_eq!(other.unwrap_err().downcast_ref(), Some(&"a mistake"));
    assert_eq!(form().map(5..5, 100, |_| -> Vec<()> { panic!("nothing to do") }), []);
}

#[test]
fn forms_inside_of_forms() {
    let inner = |items: &[usize]| {
        let form = execute::with::<NoCache>().by_padded_cost(|at| items[at] + 1).in_buckets();
        form.map(0..items.len(), 9, |places| {
            fits(places.len(), 2).map(|()| places.iter().map(|&at| items[at]).collect())
        })
    };
    let form = execute::with::<NoCache>().by_padded_cost(|_| 4).in_buckets();
    assert_eq!(form.map(0..20, 40, inner).unwrap(), (0..20).collect::<Vec<_>>());
}

#[test]
#[should_panic(expected = "length 3 costs 0: must be at least 1")]
fn a_padded_item_that_costs_nothing_is_refused() {
    execute::with::<NoCache>().by_padded_cost(|_| 3).costing(|_, _| 0).range(0..2, 9, |_, _| ());
}

#[test]
fn mistakes_are_named() {
    let form =
        || execute::with::<NoCache>().name("embed").by_padded_cost(|item| 3 - i32::try_from(item).unwrap());
    let runs = RefCell::new(0);
    let one = |_: &[usize]| {
        *runs.borrow_mut() += 1;
        vec![1]
    };
    let negative = "cost of item 4: must be from 0 to 2^64 - 1";
    assert_eq!(panic_of(|| drop(form().in_buckets().map(0..5, 9, one))), negative);
    let nothing = "by_padded_cost: length 2 costs 0: must be at least 1";
    let free = |rows, longest| if longest > 2 { rows } else { 0 };
    assert_eq!(panic_of(|| drop(form().costing(free).in_buckets().map(0..2, 9, one))), nothing);
    let huge = execute::with::<NoCache>().by_padded_cost(|_| 1).in_buckets();
    let huge = RefCell::new(Some(huge));
    let no_memory = panic_of(|| drop(huge.take().unwrap().map(0..1 << 58, 9, one)));
    assert!(no_memory.starts_with("by_padded_cost: the order of 288230376151711744 items: "), "{no_memory}");
    let backwards = "embed: start 3: must be at most end 2";
    let (start, end) = (3, 2);
    assert_eq!(panic_of(|| drop(form().in_buckets().map(start..end, 9, one))), backwards);
    let rank = &threads(2)[0];
    let ranks = execute::with::<NoCache>().name("embed").ranks(rank).by_padded_cost(|_| 1).in_buckets();
    let ranks = RefCell::new(Some(ranks));
    let refused = "embed: by_padded_cost: each rank would have other buckets: remove the option `ranks`";
    assert_eq!(panic_of(|| drop(ranks.take().unwrap().map(0..2, 9, one))), refused);
    assert_eq!(*runs.borrow(), 0, "nothing has run");
    let count = "by_padded_cost: 1 values for 2 items: must be one for each";
    assert_eq!(panic_of(|| drop(form().bucket_by(|_| 0).map(0..2, 9, one))), count);
}

#[toma::chunked(initial = 12, cache = NoCache, padded = lengths)]
fn padded(rows: &mut [usize], start: usize, end: usize, lengths: &[u8]) -> Result<(), OutOfMemory> {
    assert!(lengths.len() >= rows.len());
    rows.fill(end - start);
    Ok(())
}

#[test]
fn an_attribute_names_the_lengths() {
    let mut rows = [0; 5];
    padded(&mut rows, &[4, 4, 4, 9, 1]).unwrap();
    assert_eq!(rows, [3, 3, 3, 1, 1]);
    assert!(report::last().unwrap().sizes_are_costs);
    for lengths in [&[1; 4][..], &[1; 6]] {
        let expected = format!("padded: {} lengths for 5 items: must be as many", lengths.len());
        assert_eq!(panic_of(|| padded(&mut [0; 5], lengths)), expected);
    }
}
