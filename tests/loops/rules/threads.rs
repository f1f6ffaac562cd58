//! Two threads on one call site with one size cache: each has a step of its own.

use std::cell::RefCell;
use std::sync::Barrier;
use std::thread;

use proptest::prelude::{Just, Strategy, prop_oneof};
use toma::device::Ladder;
use toma::{GlobalCache, report};

use crate::rules::against_twin::attempts;
use crate::rules::cases::{Case, case, check};
use crate::rules::forms::{Form, NAME, Scene};
use crate::rules::plan::Plan;
use crate::rules::stage::{Notes, Stage};
use crate::rules::twin::{Bounds, Known, replay};

/// Size that a call found in the cache, and size that it settled.
type Seen = (Option<usize>, Option<usize>);

#[test]
fn two_threads_on_one_call_site() {
    let plan = || prop_oneof![Just(Plan::Halve), (0.1..0.9).prop_map(Plan::Decay)];
    let calls = move || [case(plan()), case(plan()), case(plan())];
    check((calls(), calls()), |(one, other)| {
        let cache = GlobalCache::new();
        let together = Barrier::new(2);
        let (one, other) = thread::scope(|scope| {
            let one = scope.spawn(|| make(Form::AttributeRange, one, &cache, &together));
            let other = scope.spawn(|| make(Form::AttributeRange, other, &cache, &together));
            (one.join().unwrap(), other.join().unwrap())
        });
        check_memory(&cache, &one, &other);
    });
}

/// Makes the calls of one thread, and compares each with the twin, given the size that it found in the cache.
fn make(form: Form, calls: &[Case], cache: &GlobalCache, together: &Barrier) -> Vec<Seen> {
    let complain = |case: &Case| {
        together.wait();
        perform(form, case, cache)
    };
    calls.iter().map(complain).collect()
}

fn perform(form: Form, case: &Case, cache: &GlobalCache) -> Seen {
    let notes = Notes::default();
    let stage = Stage::new(&case.script, &notes);
    let scene = Scene {
        total: case.total,
        offset: case.offset,
        rules: case.rules,
        policy: &*case.plan.policy(),
        cache,
        stage: &stage,
        ladder: Ladder::default(),
        deadline: None,
        out: RefCell::new(vec![0; case.total]),
    };
    let (ending, _) = crate::printed::printed(|| form.perform(&scene));
    drop(ending);
    let report = report::last().unwrap();
    let known = report.remembered.map(|settled| Known { settled, bounds: Bounds::default() });
    let story = replay(case.total, &case.rules, case.plan, known, &mut &case.script);
    let expected: Vec<_> = story.attempts.iter().map(|attempt| (attempt.start, attempt.end)).collect();
    assert_eq!(attempts(&notes.take()), expected, "from {known:?}");
    assert_eq!(report.settled, story.learned.map(|learned| learned.settled));
    (report.remembered, report.settled)
}

/// Asserts that each size found was settled before, and that the remaining size is the last settled by a thread.
fn check_memory(cache: &GlobalCache, one: &[Seen], other: &[Seen]) {
    let settled = |calls: &[Seen]| calls.iter().filter_map(|&(_, settled)| settled).collect::<Vec<_>>();
    let (mine, theirs) = (settled(one), settled(other));
    for (remembered, _) in one.iter().chain(other) {
        assert!(remembered.is_none_or(|size| mine.contains(&size) || theirs.contains(&size)));
    }
    let left = cache.entries().first().map(|entry| {
        assert_eq!(entry.name, NAME);
        entry.remembered.settled
    });
    assert!(left == mine.last().copied() || left == theirs.last().copied(), "{left:?} {mine:?} {theirs:?}");
}
