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
fn the_largest_cost_that_ran_settles() {
    // 20 fails, and of the pieces under a step of 10 the second is the heaviest.
    assert_eq!(settled(&[6, 7, 7, 2, 6, 6, 6], |piece| piece == (0..3)), Some(9));
}

#[test]
fn without_a_failure_nothing_settles() {
    assert_eq!(settled(&[10, 10, 15, 3, 40, 2], |_| false), None);
}

#[test]
fn a_short_tail_settles_nothing() {
    assert_eq!(settled(&[4, 16], |piece| piece.len() > 1), None, "4 of 10 is little, 16 is one item");
    assert_eq!(settled(&[5, 15], |piece| piece.len() > 1), None, "half is not enough");
    assert_eq!(settled(&[6, 14], |piece| piece.len() > 1), Some(6));
}

#[test]
fn a_short_tail_takes_nothing_back() {
    assert_eq!(settled(&[9, 9, 1, 20, 1], |piece| piece == (0..3)), Some(9));
}

#[test]
fn an_item_over_the_step_settles_nothing() {
    assert_eq!(settled(&[2, 3, 15, 50, 50], |piece| piece.len() > 2), None);
}

#[test]
fn an_item_over_the_step_is_no_evidence_when_it_fails() {
    let cache = GlobalCache::new();
    let pieces = tried(&cache, toma::Halve, &[10, 10, 50, 10, 10], |piece| piece == (2..3));
    assert_eq!(pieces, [0..2, 2..3, 3..5]);
    assert_eq!(remembered(&cache), None);
}

/// What it needs and what it weighs may be far apart, so its weight says nothing about others.
#[test]
fn an_item_that_fails_alone_within_the_step_changes_nothing() {
    let cache = GlobalCache::new();
    let pieces = tried(&cache, toma::Halve, &[16, 5, 5, 5, 3], |piece| piece == (0..1));
    assert_eq!(pieces, [0..1, 1..5]);
    assert_eq!(remembered(&cache), None);
    assert_eq!(settled(&[8, 8, 8, 1, 1], |piece| piece == (0..2) || piece == (2..3)), Some(8));
}

/// The first failure was of a piece that held item 5; the second was not, and is all that counts.
#[test]
fn a_failure_of_items_that_were_done_since_is_real() {
    let cache = GlobalCache::new();
    let fails = |piece: Range<usize>| piece.contains(&5) || piece == (0..5);
    let pieces = tried(&cache, toma::Halve, &[2; 20], fails);
    assert_eq!(pieces[..7], [0..10, 0..5, 0..2, 2..4, 4..6, 4..5, 5..6], "20, 10, 5, and then 2");
    assert_eq!(pieces[7..10], [6..7, 7..9, 9..11], "5 again, once 2 has shown that there is memory");
}

#[test]
fn what_was_known_before_an_item_was_looked_for_is_remembered_when_the_call_ends_with_it() {
    let cache = GlobalCache::new();
    let fails = |piece: Range<usize>| piece.len() > 1 || piece.contains(&5);
    let pieces = tried(&cache, toma::Halve, &[6, 6, 6, 6, 6, 2], fails);
    assert_eq!(pieces, [0..3, 0..1, 1..2, 2..3, 3..4, 4..6, 4..5, 5..6]);
    assert_eq!(remembered(&cache).unwrap().settled, 6);
}

#[test]
fn the_next_call_starts_where_this_one_settled() {
    let cache = GlobalCache::new();
    let costs: Costs = &[6, 6, 6, 6];
    let fails = |piece: Range<usize>| piece.len() > 1;
    assert_eq!(tried(&cache, toma::Halve, costs, fails), [0..3, 0..1, 1..2, 2..3, 3..4]);
    assert_eq!(tried(&cache, toma::Halve, costs, fails), [0..1, 1..2, 2..3, 3..4]);
    let lighter: Costs = &[2, 2, 2, 2];
    assert_eq!(tried(&cache, toma::Halve, lighter, |_| false), [0..3, 3..4]);
    assert_eq!(remembered(&cache).unwrap().settled, 6, "calls that never fail take nothing back");
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

/// Uses these steps, one for each piece.
#[derive(Debug)]
struct Steps(&'static [usize]);

impl Policy for Steps {
    fn shrink(&self, evidence: &Evidence) -> usize {
        evidence.size / 2
    }

    /// What is left tells which piece it is: all cost 1, one item each.
    fn advance(&self, evidence: &Evidence) -> usize {
        self.0.get(12 - evidence.remaining).copied().unwrap_or(evidence.step)
    }
}

#[test]
fn a_policy_may_lower_what_settles() {
    let cache = GlobalCache::new();
    // 12 fails; then 6, 4 and 2 items fill their steps.
    let steps = Steps(&[12, 0, 0, 0, 0, 0, 4, 0, 0, 0, 2, 0]);
    tried(&cache, steps, &[1; 12], |piece| piece.len() == 12);
    assert_eq!(remembered(&cache).unwrap().settled, 2, "the last step in force that succeeded");
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
