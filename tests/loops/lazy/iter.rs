use std::iter::FusedIterator;
use std::ops::Range;

use proptest::prelude::*;
use toma::classify::OutOfMemory;
use toma::execute;
use toma::{Bisect, NoCache};

use crate::kit::panic_of;
use crate::lazy::World;

/// Makes all calls at one call site, so that they share learned sizes.
pub(crate) fn iter(
    world: &World,
    range: Range<usize>,
    initial: usize,
) -> impl FusedIterator<Item = Result<Range<usize>, OutOfMemory>> {
    let form = execute::with::<NoCache>().cache(&world.cache);
    form.iter(range, initial, |start, end| world.attempt(start, end))
}

#[test]
fn plain_values_need_no_result() {
    assert_eq!(execute::with::<NoCache>().iter(0..5, 2, |start, end| end - start).sum::<usize>(), 5);
    let largest = execute::with::<NoCache>().iter(0..5, 2, |start, end| toma::Plain((start, end))).last();
    assert_eq!(largest.unwrap().0, (4, 5));
}

#[test]
fn the_size_goes_on_adapting() {
    let world = World::with_limit(8);
    let form = execute::with::<NoCache>().policy(Bisect::default());
    let mut rows =
        form.iter(0..1000, 16, |start, end| world.attempt(start, end)).map(|row| row.unwrap().len());
    assert_eq!(rows.by_ref().take(3).collect::<Vec<_>>(), [8, 8, 8]);
    world.limit.set(3);
    assert!(rows.next().unwrap() <= 3);
    assert_eq!(rows.by_ref().take(20).max(), Some(3));
}

#[test]
fn endless_ranges_are_lazy() {
    let world = World::with_limit(4);
    let rows: Result<Vec<_>, _> = iter(&world, 0..usize::MAX, 8).take(2).collect();
    assert_eq!(rows.unwrap(), [0..4, 4..8]);
    assert_eq!(iter(&world, 0..usize::MAX, 8).size_hint(), (1, Some(usize::MAX)));
}

#[test]
fn bad_sizes_panic_when_it_is_made() {
    let text = |call: &dyn Fn()| {
        let panic = panic_of(call);
        let (name, text) = panic.split_once(": ").unwrap();
        assert!(name.starts_with("tests/loops/lazy/"), "{name}");
        text.to_owned()
    };
    let (world, range) = (World::with_limit(4), std::hint::black_box(4)..3);
    let stream = |range, initial| {
        drop(execute::with::<NoCache>().stream(range, initial, async |_, _| ()));
    };
    for refused in [text(&|| drop(iter(&world, 0..4, 0))), text(&|| stream(0..4, 0))] {
        assert_eq!(refused, "initial 0: must be at least 1");
    }
    for refused in [text(&|| drop(iter(&world, range.clone(), 4))), text(&|| stream(range.clone(), 4))] {
        assert_eq!(refused, "start 4: must be at most end 3");
    }
}

#[test]
fn iterators_nest_and_mix() {
    let (outer, inner) = (World::with_limit(4), World::with_limit(2));
    let mut rows = iter(&outer, 0..8, 8).flat_map(|row| {
        let row = row.unwrap();
        let parts: Vec<_> = iter(&inner, row, 8).map(Result::unwrap).collect();
        parts
    });
    let mut others = iter(&inner, 0..4, 8);
    assert_eq!(rows.next(), Some(0..2));
    assert_eq!(others.next(), Some(Ok(0..2)));
    assert_eq!(rows.by_ref().map(|row| row.len()).sum::<usize>(), 6);
    assert_eq!(others.next(), Some(Ok(2..4)));
    assert_eq!((others.next(), rows.next()), (None, None));
}

proptest! {
    /// The size hint holds at every point, whatever fails.
    #[test]
    fn the_size_hint_is_right(
        items in 0..40_usize, initial in 1..40_usize, min in 1..8_usize, limit in 0..40_usize,
        fails_at in 0..60_usize, costs in prop::option::of(prop::collection::vec(0..9_u64, 40)), receives: bool,
    ) {
        let initial = initial.max(min);
        let world = World::with_limit(limit);
        let body = |start: usize, end: usize| {
            if start >= fails_at { world.limit.set(0) }
            world.attempt(start, end)
        };
        let form = execute::with::<NoCache>().min(min);
        let mut rows: Box<dyn Iterator<Item = _>> = match &costs {
            None => Box::new(form.iter(0..items, initial, body)),
            Some(costs) if receives => Box::new(form.by_cost(|i| costs[i]).left_out(|_| ()).iter(0..items, initial, body)),
            Some(costs) => Box::new(form.by_cost(|i| costs[i]).iter(0..items, initial, body)),
        };
        let mut hints = vec![rows.size_hint()];
        while rows.next().is_some() {
            hints.push(rows.size_hint());
        }
        prop_assert_eq!(rows.size_hint(), (0, Some(0)));
        for (left, (least, most)) in (0..hints.len()).rev().zip(hints) {
            prop_assert!(least <= left && left <= most.unwrap(), "{} not in {}..={:?}", left, least, most);
        }
    }
}
