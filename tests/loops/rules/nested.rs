//! A loop within a loop: the inner one handles its own failures, and when it gives up the outer one may shrink. If
//! others use the device, the inner one gives way to the outer one, which is redone with the device to itself.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use proptest::prelude::{Just, Strategy, any, prop_oneof};
use toma::cache::SizeCache;
use toma::device::Ladder;
use toma::policy::{Evidence, Policy};
use toma::{GlobalCache, NoCache, execute};

use crate::printed::printed;
use crate::rules::against_twin::{attempts, check_ending, remembered};
use crate::rules::cases::{check, rules, script, shrinking_plan};
use crate::rules::forms::{Ending, with_sizes};
use crate::rules::ladder::{among_others, bit, see};
use crate::rules::plan::Plan;
use crate::rules::script::Script;
use crate::rules::stage::{Fault, Notes, Stage};
use crate::rules::twin::{Enclosing, End, Fate, Known, Rules, Rungs, World, replay};

#[derive(Clone, Debug)]
struct Nest {
    total: usize,
    outer: (Rules, Plan),
    inner: (Rules, Plan),
    /// Bytes per item of the outer piece, and of the inner piece.
    weights: (usize, usize),
    budget: usize,
    script: Script,
    calls: usize,
    /// Attempts of the inner loop during which others use the device, one bit each.
    others: u64,
}

fn nest() -> impl Strategy<Value = Nest> {
    let plan = shrinking_plan;
    let weights = (0..=5_usize, 0..=5_usize);
    let others = prop_oneof![1 => Just(0), 2 => any::<[u64; 2]>().prop_map(|[one, other]| one & other)];
    let loops = (0..=60_usize, (rules(), plan()), (rules(), plan()));
    (loops, weights, 0..=200_usize, script(), 1..=2_usize, others).prop_map(
        |((total, outer, inner), weights, budget, script, calls, others)| Nest {
            total,
            outer,
            inner,
            weights,
            budget,
            script,
            // A second call would see the sizes learned on the device and the contention of the first one.
            calls: if others == 0 { calls } else { 1 },
            others,
        },
    )
}

impl Nest {
    fn fate(&self, number: usize, outer: usize, (start, end): (usize, usize)) -> Fate {
        if outer * self.weights.0 + (end - start) * self.weights.1 > self.budget {
            return Fate::OutOfMemory;
        }
        self.script.fate(number, start, end)
    }
}

/// Attempts of the outer loop, each of which is a call of the inner loop.
struct Outside<'a> {
    nest: &'a Nest,
    known: Option<Known>,
    /// Attempts of all inner calls, and the number of them before the last attempt of the outer loop.
    attempts: Vec<(usize, usize)>,
    before: usize,
    /// The current attempt of the outer loop.
    around: Enclosing,
}

/// Attempts of the inner loop within one attempt of the outer loop.
struct Inside<'a> {
    nest: &'a Nest,
    before: usize,
    outer: (usize, usize),
    around: Enclosing,
}

impl<'a> Outside<'a> {
    fn of(nest: &'a Nest) -> Self {
        Self { nest, known: None, attempts: Vec::new(), before: 0, around: Enclosing::default() }
    }
}

impl World for Outside<'_> {
    fn fate(&mut self, _number: usize, start: usize, end: usize) -> Fate {
        let (rules, plan) = &self.nest.inner;
        self.before = self.attempts.len();
        let (nest, before, around) = (self.nest, self.before, self.around);
        let mut inside = Inside { nest, before, outer: (start, end), around };
        let story = replay(end - start, rules, *plan, self.known, &mut inside);
        self.attempts.extend(story.attempts.iter().map(|inner| (start + inner.start, start + inner.end)));
        self.known = story.learned.or(self.known);
        match story.end {
            End::Done => Fate::Success,
            End::GaveWay(number) if self.is_error(number) => Fate::OutOfMemory,
            End::Passed(number) | End::GaveWay(number) => story.attempts[number].fate,
            End::NotSmaller(..) => unreachable!("these plans shrink"),
        }
    }

    fn is_memory_low(&self, _number: usize) -> bool {
        self.nest.script.is_memory_low(self.attempts.len() - 1)
    }

    fn is_error(&self, _number: usize) -> bool {
        self.nest.script.is_error(self.attempts.len() - 1)
    }

    fn rungs(&self) -> Rungs {
        Rungs { wait: true, ..Rungs::default() }
    }

    fn others(&self, _number: usize) -> bool {
        (self.before..self.attempts.len()).any(|number| bit(self.nest.others, number))
    }

    fn others_stay(&self, _number: usize) -> bool {
        bit(self.nest.others, self.attempts.len() - 1)
    }

    fn enter(&mut self, inside: Enclosing) {
        self.around = inside;
    }
}

impl World for Inside<'_> {
    fn fate(&mut self, number: usize, start: usize, end: usize) -> Fate {
        let (first, last) = self.outer;
        self.nest.fate(self.before + number, last - first, (first + start, first + end))
    }

    fn is_memory_low(&self, number: usize) -> bool {
        self.nest.script.is_memory_low(self.before + number)
    }

    fn is_error(&self, number: usize) -> bool {
        self.nest.script.is_error(self.before + number)
    }

    fn others(&self, number: usize) -> bool {
        bit(self.nest.others, self.before + number)
    }

    fn enclosing(&self) -> Option<Enclosing> {
        Some(self.around)
    }
}

#[test]
fn inner_first_then_outer() {
    check(nest(), |nest| {
        let caches = [GlobalCache::new(), GlobalCache::new()];
        let (mut known, mut outside) = (None, Outside::of(nest));
        for _ in 0..nest.calls {
            outside.attempts.clear();
            let (rules, plan) = &nest.outer;
            let story = replay(nest.total, rules, *plan, known, &mut outside);
            known = story.learned.or(known);
            let notes = Notes::default();
            let stage = Stage::new(&nest.script, &notes);
            let stage = if nest.others == 0 { stage } else { stage.untouched() };
            let call = || run(nest, &stage, [&caches[0], &caches[1]]);
            let (ending, printed) = printed(|| among_others(nest.others, &stage, call));
            assert_eq!(attempts(&notes.take()), outside.attempts);
            let last = outside.attempts.len().saturating_sub(1);
            let end = if story.end == End::Done { End::Done } else { End::Passed(last) };
            check_ending(&ending, &end, &stage, &nest.script);
            assert_eq!(printed, usize::from(matches!(ending, Ending::Panic(_))), "panics printed");
            assert_eq!(remembered(&caches[0].entries()), known, "what the outer call remembers");
            assert_eq!(remembered(&caches[1].entries()), outside.known, "what the inner call remembers");
        }
    });
}

fn run(nest: &Nest, stage: &Stage, [outer_cache, inner_cache]: [&dyn SizeCache; 2]) -> Ending {
    let ((outer, outer_plan), (inner, inner_plan)) = (&nest.outer, &nest.inner);
    let (outer_policy, inner_policy) = (outer_plan.policy(), inner_plan.policy());
    Ending::of(|| {
        let with = with_sizes!(outer).cache(outer_cache).policy(&*outer_policy).device(stage);
        let with = with.observer(&see).ladder(Ladder::default().wait(Duration::from_secs(600)));
        with.classify(Fault::failure).range(0..nest.total, outer.initial, |first, last| {
            let with = with_sizes!(inner).cache(inner_cache).policy(&*inner_policy).device(stage);
            with.classify(Fault::failure).range(first..last, inner.initial, |start, end| {
                let fate = nest.fate(stage.attempts(), last - first, (start, end));
                stage.end(fate, start, end).map(drop)
            })
        })?;
        Ok(None)
    })
}

/// A policy that never shrinks.
#[derive(Debug)]
struct Stubborn;

impl Policy for Stubborn {
    fn shrink(&self, evidence: &Evidence) -> usize {
        evidence.size
    }
}

#[test]
fn a_mistake_inside_is_no_failure_to_the_outer_loop() {
    let attempts = Cell::new(0);
    let (result, printed) = printed(|| {
        catch_unwind(AssertUnwindSafe(|| {
            execute::with::<NoCache>().batch(8, |_| {
                attempts.set(attempts.get() + 1);
                let with = execute::with::<NoCache>().policy(Stubborn);
                with.batch(4, |size| assert!(size == 0, "CUDA out of memory. Tried to allocate 2.00 GiB"));
            });
        }))
    });
    let text = *result.unwrap_err().downcast::<String>().unwrap();
    assert!(text.ends_with(": policy Stubborn: answered 4 after a failure at 4: must be smaller"), "{text}");
    assert_eq!((attempts.get(), printed), (1, 1));
}
