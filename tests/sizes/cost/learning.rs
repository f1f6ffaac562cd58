//! Sizes that a call with costs settles, and failures that are no evidence.

use std::ops::Range;

use toma::cache::Remembered;
use toma::classify::OutOfMemory;
use toma::policy::{Evidence, Policy};
use toma::{Bisect, GlobalCache, NoCache, execute};

type Costs = &'static [usize];

/// Runs a call in which the pieces selected by `fails` run out of memory, and returns the pieces tried.
fn tried(
    cache: &GlobalCache,
    policy: impl Policy,
    costs: Costs,
    fails: impl Fn(Range<usize>) -> bool,
) -> Vec<Range<usize>> {
    let mut tried = Vec::new();
    let form = execute::with::<NoCache>().cache(cache).name("learning").policy(policy);
    let form = form.by_cost(|i| costs[i]).left_out(|_| ());
    let done = form.range(0..costs.len(), 20, |start, end| {
        tried.push(start..end);
        if fails(start..end) { Err(OutOfMemory::new(None)) } else { Ok(()) }
    });
    done.unwrap();
    tried
}

fn remembered(cache: &GlobalCache) -> Option<Remembered> {
    let entries = cache.entries();
    assert!(entries.len() <= 1);
    entries.first().map(|entry| entry.remembered.clone())
}

#[test]
fn little_pieces_are_no_bound_for_policies() {
    let cache = GlobalCache::new();
    // If the piece of 1 were evidence, the step would be 1 after the next failure.
    let costs: Costs = &[1, 19, 3, 3, 3, 3, 3, 3];
    let fails = |piece: Range<usize>| piece == (0..2) || piece == (2..5);
    let pieces = tried(&cache, Bisect::default(), costs, fails);
    assert_eq!(pieces[..5], [0..2, 0..1, 1..2, 2..5, 2..3]);
    let bounds = remembered(&cache).unwrap().bounds;
    assert!(bounds.largest_success >= Some(3), "{bounds:?}");
}

/// A policy that lowers the step when 20 items of 30 are done, and when 24 are.
#[derive(Debug)]
struct Lowers;

impl Policy for Lowers {
    fn shrink(&self, evidence: &Evidence) -> usize {
        evidence.size / 2
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        match evidence.remaining {
            10 => 4,
            6 => 2,
            _ => evidence.step,
        }
    }
}

#[test]
fn a_policy_may_lower_what_settles() {
    let cache = GlobalCache::new();
    let pieces = tried(&cache, Lowers, &[1; 30], |piece| piece.len() == 20);
    assert_eq!(pieces[..6], [0..20, 0..10, 10..20, 20..24, 24..26, 26..28]);
    assert_eq!(remembered(&cache).unwrap().settled, 2, "the last step in force that succeeded");
}

/// A policy that doubles the step after each success.
#[derive(Debug)]
struct Doubles;

impl Policy for Doubles {
    fn shrink(&self, evidence: &Evidence) -> usize {
        evidence.size / 2
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        evidence.step * 2
    }
}

#[test]
fn a_search_does_not_grow_the_step() {
    let cache = GlobalCache::new();
    let pieces = tried(&cache, Doubles, &[1; 30], |piece| piece == (0..20) || piece == (0..10));
    assert_eq!(pieces[..6], [0..20, 0..10, 0..5, 5..10, 10..15, 15..20], "until its items are done");
}

#[test]
fn evidence_is_in_units_of_cost() {
    #[derive(Debug)]
    struct Sees;

    impl Policy for Sees {
        fn shrink(&self, evidence: &Evidence) -> usize {
            assert_eq!((evidence.size, evidence.step, evidence.remaining), (18, 20, 24));
            9
        }

        fn advance(&self, evidence: &Evidence) -> usize {
            let seen = (evidence.size, evidence.remaining);
            assert!([(18, 24), (9, 15), (9, 6)].contains(&seen), "{seen:?}");
            evidence.step
        }
    }

    let cache = GlobalCache::new();
    let pieces = tried(&cache, Sees, &[9, 9, 6], |piece| piece.len() > 1 && piece.start == 0);
    assert_eq!(pieces, [0..2, 0..1, 1..2, 2..3]);
}
