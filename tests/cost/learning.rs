//! What a call with costs settles, and what is no evidence.

use std::ops::Range;

use toma::cache::Remembered;
use toma::classify::OutOfMemory;
use toma::policy::{Evidence, Policy};
use toma::{Bisect, GlobalCache, NoCache, execute};

type Costs = &'static [usize];

/// Runs a call in which `fails` says which pieces run out of memory; the pieces tried.
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

fn settled(costs: Costs, fails: impl Fn(Range<usize>) -> bool) -> Option<usize> {
    let cache = GlobalCache::new();
    tried(&cache, toma::Halve, costs, fails);
    remembered(&cache).map(|remembered| remembered.settled)
}

#[test]
fn the_largest_cost_that_filled_half_of_the_step_settles() {
    let fails = |piece: Range<usize>| piece == (0..3);
    // 20 fails, and of the pieces under a step of 10 the last but one is the heaviest.
    assert_eq!(settled(&[6, 7, 7, 8, 1, 6], fails), Some(9));
    assert_eq!(settled(&[9, 9, 1, 20, 1], fails), Some(9), "a short tail takes nothing back");
    let fails = |piece: Range<usize>| piece.len() > 1;
    assert_eq!(settled(&[6, 14], fails), Some(6));
    assert_eq!(settled(&[5, 15], fails), None, "half is not enough");
    assert_eq!(settled(&[4, 16], fails), None, "4 of 10 is little, and 16 is one item");
    assert_eq!(settled(&[10, 10, 15, 3, 40, 2], |_| false), None, "nothing failed");
    assert_eq!(settled(&[2, 3, 15, 50, 50], |piece| piece.len() > 2), None, "items over the step");
}

/// What it needs and what it costs may be far apart, so its cost says nothing about others.
#[test]
fn a_single_item_that_fails_is_no_evidence() {
    let cases: [(Costs, usize); 2] = [(&[10, 10, 50, 10, 10], 2), (&[16, 5, 5, 5, 3], 0)];
    for ((costs, item), pieces) in cases.into_iter().zip([vec![0..2, 2..3, 3..5], vec![0..1, 1..5]]) {
        let cache = GlobalCache::new();
        assert_eq!(tried(&cache, toma::Halve, costs, |piece| piece == (item..item + 1)), pieces);
        assert_eq!(remembered(&cache), None);
    }
    assert_eq!(settled(&[8, 8, 8, 1, 1], |piece| piece == (0..2) || piece == (2..3)), Some(8));
}

/// The item is in every piece that fails first, so the real limit is learned after it.
#[test]
fn a_limit_that_an_item_has_hidden_is_learned_after_it() {
    let cache = GlobalCache::new();
    let fails = |piece: Range<usize>| piece.len() > 5 || piece.contains(&7);
    let pieces = tried(&cache, toma::Halve, &[2; 20], fails);
    assert_eq!(pieces[..6], [0..10, 0..5, 5..10, 5..7, 7..9, 7..8], "7 is left out, and 20 is tried again");
    assert_eq!(pieces[6..], [8..18, 8..13, 13..18, 18..20]);
    assert_eq!(remembered(&cache).unwrap().settled, 10);
}

#[test]
fn calls_that_never_fail_take_nothing_back() {
    let cache = GlobalCache::new();
    assert_eq!(tried(&cache, toma::Halve, &[6; 4], |piece| piece.len() > 1), [0..3, 0..1, 1..2, 2..3, 3..4]);
    assert_eq!(tried(&cache, toma::Halve, &[2; 4], |_| false), [0..3, 3..4]);
    assert_eq!(remembered(&cache).unwrap().settled, 6);
}

#[test]
fn little_pieces_are_no_bound_for_policies() {
    let cache = GlobalCache::new();
    // Taken for evidence, the piece of 1 would make the step 1 after the next failure.
    let costs: Costs = &[1, 19, 3, 3, 3, 3, 3, 3];
    let fails = |piece: Range<usize>| piece == (0..2) || piece == (2..5);
    let pieces = tried(&cache, Bisect::default(), costs, fails);
    assert_eq!(pieces[..5], [0..2, 0..1, 1..2, 2..5, 2..3]);
    let bounds = remembered(&cache).unwrap().bounds;
    assert!(bounds.largest_success >= Some(3), "{bounds:?}");
}

/// Lowers the step where 20 items of 30 are done, and where 24 are.
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

/// Doubles the step after each success.
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
