//! Tests that `Bisect` finds the largest size that works, within its tolerance.

use proptest::prelude::Strategy;
use toma::{Bisect, GlobalCache, NoCache, execute};

use crate::rules::cases::{check, tolerance};

/// Number of items that is enough to find any size below a thousand.
const MANY: usize = 100_000;

#[derive(Clone, Copy, Debug)]
struct Search {
    initial: usize,
    threshold: usize,
    tolerance: f64,
    multiple_of: usize,
}

fn search() -> impl Strategy<Value = Search> {
    (1..=9_usize, 1..=1000_usize, 1..=1000_usize, tolerance()).prop_map(
        |(multiple_of, one, other, tolerance)| {
            let round_up = |size: usize| size.next_multiple_of(multiple_of);
            Search {
                initial: round_up(one.max(other)),
                threshold: round_up(one.min(other)),
                tolerance,
                multiple_of,
            }
        },
    )
}

impl Search {
    /// Returns true if a size is as close to the threshold as the tolerance and the multiples allow.
    fn is_found(&self, size: usize) -> bool {
        let tolerated = (self.tolerance * size as f64).max((2 * self.multiple_of) as f64);
        size <= self.threshold && (self.threshold - size) as f64 <= tolerated
    }

    /// Returns the sizes of the attempts at `items`, and the number of failed attempts.
    fn run(&self, items: usize) -> (Vec<usize>, usize) {
        let (mut sizes, mut failures) = (Vec::new(), 0);
        let with = execute::with::<NoCache>().policy(Bisect::within(self.tolerance));
        with.multiple_of(self.multiple_of).range(0..items, self.initial, |start, end| {
            if end - start > self.threshold {
                failures += 1;
                panic!("CUDA out of memory. Tried to allocate 2.00 GiB");
            }
            sizes.push(end - start);
        });
        (sizes, failures)
    }
}

#[test]
fn ends_within_the_tolerance() {
    check(search(), |search| {
        let (sizes, failures) = search.run(MANY.min(search.initial * 40));
        let (_rest, pieces) = sizes.split_last().unwrap();
        assert!(pieces.len() >= 20, "{} pieces are too few for a judgment", pieces.len());
        let last = *pieces.last().unwrap();
        assert!(search.is_found(last), "{last} of {}", search.threshold);
        // At most as many failures as it takes to halve down to one item and search back up to the threshold.
        assert!(failures <= 2 * search.initial.ilog2() as usize + 2, "{failures} failures");
        let found = pieces.iter().position(|&size| size == last).unwrap();
        assert!(pieces[found..].iter().all(|&size| size == last), "probes on after it has found");
    });
}

#[test]
fn of_batches_ends_within_the_tolerance_from_call_to_call() {
    check(search(), |search| {
        let cache = GlobalCache::new();
        let mut last = 0;
        let mut failures = 0;
        for _ in 0..30 {
            let with = execute::with::<GlobalCache>().cache(&cache).policy(Bisect::within(search.tolerance));
            last = with.multiple_of(search.multiple_of).batch(search.initial, |size| {
                if size > search.threshold {
                    failures += 1;
                    panic!("CUDA out of memory. Tried to allocate 2.00 GiB");
                }
                size
            });
        }
        assert!(search.is_found(last), "{last} of {}", search.threshold);
        assert!(failures <= 2 * search.initial.ilog2() as usize + 2, "{failures} failures");
    });
}
