//! Behavior that iterators and streams share.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use toma::classify::OutOfMemory;
use toma::observe::Reason;
use toma::{GlobalCache, NoCache, execute, report};

use crate::lazy::iter::iter;
use crate::lazy::stream::{stream, values};
use crate::lazy::{OUT_OF_MEMORY, World, pause};

type Rows<'a, R = Result<Range<usize>, OutOfMemory>> = Box<dyn Iterator<Item = R> + 'a>;

type Form = for<'a> fn(&'a World, Range<usize>, usize) -> Rows<'a>;

const FORMS: [Form; 2] = [
    |world, range, initial| Box::new(iter(world, range, initial)),
    |world, range, initial| Box::new(values(stream(world, range, initial))),
];

#[test]
fn nothing_runs_before_it_is_asked_for() {
    for form in FORMS {
        let world = World::with_limit(4);
        let mut rows = form(&world, 10..20, 16);
        assert_eq!((world.tried(), world.settled()), (0, None));
        assert_eq!(rows.next(), Some(Ok(10..12)));
        assert_eq!(world.tried(), 3, "10..20, 10..15 and 10..12");
        assert_eq!(rows.next(), Some(Ok(12..14)));
        assert_eq!(world.tried(), 4);
    }
}

#[test]
fn it_gives_what_map_collects() {
    let twin = World::with_limit(3);
    let map = execute::with::<NoCache>().cache(&twin.cache);
    let expected = map.map(5..30, 16, |start, end| twin.attempt(start, end)).unwrap();
    for form in FORMS {
        let world = World::with_limit(3);
        assert_eq!(form(&world, 5..30, 16).collect::<Result<Vec<_>, _>>().unwrap(), expected);
        assert_eq!((&world.attempts, world.settled()), (&twin.attempts, twin.settled()));
    }
}

#[test]
fn an_error_is_the_last_that_comes() {
    for form in FORMS {
        let world = World::with_limit(8);
        let mut rows = form(&world, 0..32, 8);
        assert_eq!(rows.next(), Some(Ok(0..8)));
        world.limit.set(0);
        assert!(rows.next().unwrap().is_err());
        let tried = world.tried();
        world.limit.set(8);
        assert_eq!((rows.next(), rows.next()), (None, None));
        assert_eq!(world.tried(), tried, "nothing runs any more");
        assert_eq!(report::last().unwrap().gave_up, Some(Reason::NothingSmaller), "the call is over");
    }
}

#[test]
fn a_panic_goes_through_and_ends_it() {
    let body = |start: usize, end: usize| {
        assert!(end - start <= 4, "{OUT_OF_MEMORY}");
        assert!(start < 8, "a mistake");
        start
    };
    let paused = async |start, end| {
        pause().await;
        body(start, end)
    };
    let caches = [GlobalCache::new(), GlobalCache::new()];
    let [one, other] = caches.each_ref().map(|cache| execute::with::<NoCache>().cache(cache));
    let forms: [Rows<'_, _>; 2] =
        [Box::new(one.iter(0..32, 8, body)), Box::new(values(other.stream(0..32, 8, paused)))];
    for (mut rows, cache) in forms.into_iter().zip(&caches) {
        assert_eq!((rows.next(), rows.next()), (Some(0), Some(4)));
        let panic = catch_unwind(AssertUnwindSafe(|| rows.next())).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"a mistake"));
        assert_eq!(cache.entries()[0].remembered.settled, 4, "the call ended with the panic");
        assert_eq!((rows.next(), rows.next(), report::last().unwrap().attempts), (None, None, 4));
    }
}

#[test]
fn the_call_is_over_with_the_last_value() {
    for form in FORMS {
        let world = World::with_limit(4);
        let mut rows = form(&world, 0..8, 8);
        assert_eq!(rows.by_ref().take(2).count(), 2);
        assert_eq!(world.settled(), Some(4), "before the end is asked for, and before it is dropped");
        assert_eq!(report::last().unwrap().done, 8);
        assert_eq!(rows.next(), None);
    }
}

#[test]
fn dropped_anywhere_it_remembers_and_runs_nothing() {
    for (form, taken) in FORMS.into_iter().flat_map(|form| (0..6).map(move |taken| (form, taken))) {
        let world = World::with_limit(4);
        let mut rows = form(&world, 0..20, 16);
        let done = rows.by_ref().take(taken).map(|row| row.unwrap().len()).sum::<usize>();
        let tried = world.tried();
        drop(rows);
        assert_eq!(world.tried(), tried);
        assert_eq!(world.settled(), (taken > 0).then_some(4), "after {taken}");
        assert!(taken == 0 || report::last().unwrap().done == done);

        let rest: Vec<_> = form(&world, done..20, 16).collect::<Result<_, _>>().unwrap();
        assert!(rest.iter().all(|row| row.len() == 4), "the next call starts where this one settled");
    }
}
