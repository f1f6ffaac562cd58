//! Compares calls with any costs, sizes and memory, through every form, with the twin.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

use proptest::prelude::*;
use proptest::sample::select;
use toma::classify::Class;
use toma::execute::{self, LeftOut};
use toma::{GlobalCache, NoCache, report};

use crate::cost::twin::{Case, Story};
use crate::executor::{block_on, pause};

/// The piece that ran out of memory.
#[derive(Clone, Debug, PartialEq)]
struct Refused(Range<usize>);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CUDA out of memory. At {:?}", self.0)
    }
}

impl std::error::Error for Refused {}

/// Records of a form.
#[derive(Default)]
struct Seen {
    attempts: RefCell<Vec<Range<usize>>>,
    undone: RefCell<Vec<Range<usize>>>,
    weighed: RefCell<Vec<usize>>,
    left_out: RefCell<Vec<LeftOut>>,
}

type Outcome = Result<Vec<Range<usize>>, Refused>;

/// Indices begin here, to distinguish them from positions.
const FIRST: usize = 1000;

impl Seen {
    fn attempt(&self, case: &Case, start: usize, end: usize) -> Result<Range<usize>, Refused> {
        let piece = start - FIRST..end - FIRST;
        self.attempts.borrow_mut().push(piece.clone());
        if case.fails(&piece) { Err(Refused(piece)) } else { Ok(piece) }
    }

    fn weigh(&self, case: &Case, index: usize) -> u64 {
        self.weighed.borrow_mut().push(index - FIRST);
        case.costs[index - FIRST]
    }
}

type Form = fn(&Case, &GlobalCache, &Seen, bool) -> Outcome;

/// Defines each form, with all options that the forms share, with and without `left_out`. Indices begin at `$first`.
macro_rules! forms {
    ($($name:ident($first:expr): |$case:ident, $seen:ident, $form:ident| $run:expr;)*) => {$(
        fn $name($case: &Case, cache: &GlobalCache, $seen: &Seen, is_reported: bool) -> Outcome {
            let to_index = FIRST - $first;
            let form = execute::with::<NoCache>()
                .cache(cache)
                .name("packed")
                .min(size($case.min))
                .multiple_of(size($case.multiple_of))
                .before_retry(|failed| {
                    let failed = failed.start + to_index - FIRST..failed.end + to_index - FIRST;
                    $seen.undone.borrow_mut().push(failed);
                })
                .by_cost(|index| $seen.weigh($case, index + to_index));
            if is_reported {
                let $form = form.left_out(|mut item: LeftOut| {
                    item.index += to_index;
                    $seen.left_out.borrow_mut().push(item);
                });
                $run
            } else {
                let $form = form;
                $run
            }
        }
    )*};
}

fn size(units: u64) -> usize {
    usize::try_from(units).unwrap()
}

fn range_of(case: &Case) -> Range<usize> {
    FIRST..FIRST + case.costs.len()
}

forms! {
    range(FIRST): |case, seen, form| {
        let done = RefCell::new(Vec::new());
        let all = form.range(range_of(case), size(case.initial), |start, end| {
            seen.attempt(case, start, end).map(|piece| done.borrow_mut().push(piece))
        });
        all.map(|()| done.into_inner())
    };
    chunked(0): |case, seen, form| {
        let items: Vec<usize> = (0..case.costs.len()).collect();
        let done = RefCell::new(Vec::new());
        let all = form.chunked(&items[..], size(case.initial), |chunk: &[usize], start, end| {
            assert!(chunk.iter().copied().eq(start..end));
            seen.attempt(case, start + FIRST, end + FIRST).map(|piece| done.borrow_mut().push(piece))
        });
        all.map(|()| done.into_inner())
    };
    map(FIRST): |case, seen, form| {
        form.map(range_of(case), size(case.initial), |start, end| seen.attempt(case, start, end))
    };
    fold(FIRST): |case, seen, form| {
        form.fold(range_of(case), size(case.initial), Vec::new(), |done: &Vec<_>, start, end| {
            let piece = seen.attempt(case, start, end)?;
            Ok([done.clone(), vec![piece]].concat())
        })
    };
    iter(FIRST): |case, seen, form| {
        form.iter(range_of(case), size(case.initial), |start, end| seen.attempt(case, start, end)).collect()
    };
    stream(FIRST): |case, seen, form| {
        let body = async |start, end| {
            pause().await;
            seen.attempt(case, start, end)
        };
        let mut stream = form.stream(range_of(case), size(case.initial), body);
        let mut done = Vec::new();
        while let Some(piece) = block_on(stream.next()) {
            done.push(piece?);
        }
        Ok(done)
    };
}

const FORMS: [(&str, Form); 6] = [
    ("range", range),
    ("chunked", chunked),
    ("map", map),
    ("fold", fold),
    ("iter", iter),
    ("stream", stream),
];

fn cases() -> impl Strategy<Value = Case> {
    let cost = prop_oneof![3 => 0..20_u64, 1 => Just(0), 1 => 20..200_u64];
    let sizes = (1..120_u64, prop_oneof![Just(1), 1..20_u64], prop_oneof![Just(1), 1..9_u64]).prop_map(
        |(initial, min, multiple_of)| {
            let floor = min.max(multiple_of).next_multiple_of(multiple_of);
            (initial.max(floor), min, multiple_of)
        },
    );
    (prop::collection::vec((cost, 0..20_u64), 0..40), sizes, 0..150_u64, any::<bool>()).prop_map(
        |(items, (initial, min, multiple_of), memory, is_good_guess)| {
            let (costs, others): (Vec<_>, Vec<_>) = items.into_iter().unzip();
            let needs = if is_good_guess { costs.clone() } else { others };
            Case { costs, initial, min, multiple_of, needs, memory }
        },
    )
}

/// Asserts rules that hold for every story, so that the twin and the engine cannot be wrong together.
fn check_rules(case: &Case, story: &Story) {
    let single = story.left_out.iter().map(|&index| index..index + 1);
    let mut all: Vec<_> = story.done.iter().cloned().chain(single).collect();
    all.sort_by_key(|piece| piece.start);
    let end = story.gave_up.as_ref().map_or(case.costs.len(), |piece| piece.start);
    assert!(all.into_iter().flatten().eq(0..end), "each item once, in order");
    for piece in &story.attempts {
        assert!(piece.len() == 1 || case.cost(piece) <= case.initial, "{piece:?} is too heavy");
    }
    for pair in story.attempts.windows(2) {
        let again = pair[0].start == pair[1].start;
        assert!(again && pair[1].end < pair[0].end || pair[0].end == pair[1].start, "{pair:?}");
    }
}

/// Compares one call with its story.
fn check((name, form): (&str, Form), case: &Case, cache: &GlobalCache, story: &Story, is_reported: bool) {
    check_rules(case, story);
    let seen = Seen::default();
    let outcome = form(case, cache, &seen, is_reported);
    let report = report::last().unwrap();

    assert_eq!(seen.attempts.take(), story.attempts, "{name}");
    assert!(seen.weighed.take().into_iter().eq(0..case.costs.len()), "{name}: each cost once, in order");
    let passed = story.gave_up.clone();
    let kept = story.left_out.first().filter(|_| !is_reported).map(|&index| index..index + 1);
    match passed.clone().or(kept) {
        Some(piece) => assert_eq!(outcome, Err(Refused(piece)), "{name}"),
        None => assert_eq!(outcome.unwrap(), story.done, "{name}"),
    }
    let failed = story.attempts.iter().filter(|piece| case.fails(piece));
    let undone: Vec<_> = failed.filter(|&piece| Some(piece) != passed.as_ref()).cloned().collect();
    assert_eq!(seen.undone.take(), undone, "{name}: all that failed but what goes through at once");
    let received: Vec<_> = seen.left_out.take();
    for (item, &index) in received.iter().zip(&story.left_out) {
        assert_eq!((item.index - FIRST, item.cost), (index, case.costs[index].max(1)));
        assert_eq!(item.failure.class, Class::OutOfMemory);
    }
    assert_eq!(received.len(), if is_reported { story.left_out.len() } else { 0 });
    assert_eq!(report.left_out, story.left_out);
    assert_eq!(report.done, story.done.iter().map(Range::len).sum::<usize>());
    assert_eq!(report.settled.map(|size| size as u64), story.settled);
}

proptest! {
    #[test]
    fn every_form_does_what_the_twin_does(case in cases(), form in select(&FORMS[..]), is_reported: bool) {
        let cache = GlobalCache::new();
        let first = case.replay(None);
        check(form, &case, &cache, &first, is_reported);
        check(form, &case, &cache, &case.replay(first.settled), is_reported);
    }

    /// The settled size packs the same items the same way again.
    #[test]
    fn the_next_call_packs_as_this_one_ended(case in cases(), (name, form) in select(&FORMS[..])) {
        let (case, cache) = (Case { multiple_of: 1, ..case }, GlobalCache::new());
        let attempts = |case: &Case| {
            let seen = Seen::default();
            let _ = form(case, &cache, &seen, true);
            seen.attempts.take()
        };
        let (first, report) = (attempts(&case), report::last().unwrap());
        let Some(settled) = report.settled else { return Ok(()) };
        if !report.left_out.is_empty() || settled < size(case.min) {
            return Ok(());
        }
        // Pieces are cut at the end of the last search.
        let failed = first.iter().filter(|piece| case.fails(piece));
        let start = failed.map(|piece| piece.end).max().unwrap();
        let ended = first.into_iter().filter(|piece| piece.start >= start);
        let tail = Case { costs: case.costs[start..].to_vec(), needs: case.needs[start..].to_vec(), ..case };
        let again = attempts(&tail);
        let shifted = again.into_iter().map(|piece| piece.start + start..piece.end + start);
        prop_assert!(shifted.eq(ended), "{name}");
    }
}
