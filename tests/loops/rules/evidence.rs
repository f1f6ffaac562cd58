//! Tests the evidence that policies receive.

use std::cell::RefCell;

use toma::NoCache;
use toma::classify::Class;
use toma::device::Ladder;
use toma::policy::{Evidence, Policy};

use crate::printed::printed;
use crate::rules::cases::{Case, case, check};
use crate::rules::forms::{Form, Scene};
use crate::rules::plan::Plan;
use crate::rules::script::Script;
use crate::rules::stage::{Notes, Stage};
use crate::rules::twin::{Attempt, Fate, replay};

/// A policy that halves and records its evidence.
#[derive(Debug, Default)]
struct Witness {
    before_pieces: RefCell<Vec<Evidence>>,
    after_failures: RefCell<Vec<Evidence>>,
}

impl Policy for Witness {
    fn shrink(&self, evidence: &Evidence) -> usize {
        self.after_failures.borrow_mut().push(evidence.clone());
        evidence.size / 2
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        self.before_pieces.borrow_mut().push(evidence.clone());
        evidence.step
    }
}

#[test]
fn shows_what_happened() {
    check(case(proptest::prelude::Just(Plan::Halve)), |case| {
        let witness = Witness::default();
        let stage = Stage::new(&case.script, &Notes::default());
        let scene = Scene {
            total: case.total,
            offset: case.offset,
            rules: case.rules,
            policy: &witness,
            cache: &NoCache,
            stage: &stage,
            ladder: Ladder::default(),
            deadline: None,
            out: RefCell::new(vec![0; case.total]),
        };
        let _ = printed(|| drop(Form::Range.perform(&scene)));
        let attempts = replay(case.total, &case.rules, case.plan, None, &mut &case.script).attempts;
        check_failures(case, &attempts, &witness.after_failures.borrow());
        check_pieces(case, &attempts, &witness.before_pieces.borrow());
    });
}

/// Asserts that each failure which led to a smaller size was passed to the policy with the complete evidence.
fn check_failures(case: &Case, attempts: &[Attempt], received: &[Evidence]) {
    let shrunk = |number: &usize| {
        let (one, next) = (attempts[*number], attempts[number + 1]);
        one.fate != Fate::Success && next.end < one.end
    };
    let shrinks: Vec<usize> = (1..attempts.len()).map(|next| next - 1).filter(shrunk).collect();
    assert_eq!(received.len(), shrinks.len());
    for (&number, evidence) in shrinks.iter().zip(received) {
        let Attempt { start, end, fate } = attempts[number];
        let class = if fate == Fate::Transient { Class::Transient } else { Class::OutOfMemory };
        let memory = case.script.reading(number);
        assert_eq!((evidence.size, evidence.class), (end - start, Some(class)));
        assert_eq!((evidence.free_bytes, evidence.total_bytes), (memory.map(|m| m.0), memory.map(|m| m.1)));
        assert_eq!(evidence.remaining, case.total - start);
        assert_eq!(evidence.bounds.smallest_failure.map(|fails| fails <= end - start), Some(true));
        check_requested(&case.script, number, evidence);
        check_limits(case, evidence);
    }
}

fn check_requested(script: &Script, number: usize, evidence: &Evidence) {
    // Some panics contain the bytes in their text.
    if script.is_error(number) {
        assert_eq!(evidence.requested_bytes, script.requested);
    }
}

/// Asserts that the policy is asked for the step before each piece and at no other time, without a memory reading.
fn check_pieces(case: &Case, attempts: &[Attempt], received: &[Evidence]) {
    let mut starts: Vec<usize> = attempts.iter().map(|attempt| attempt.start).collect();
    starts.dedup();
    assert_eq!(received.iter().map(|evidence| case.total - evidence.remaining).collect::<Vec<_>>(), starts);
    for evidence in received {
        assert_eq!((evidence.class, evidence.requested_bytes), (None, None));
        assert_eq!((evidence.free_bytes, evidence.total_bytes), (None, None));
        check_limits(case, evidence);
    }
}

fn check_limits(case: &Case, evidence: &Evidence) {
    let (rules, sizes) = (&case.rules, [evidence.floor, evidence.cap, evidence.multiple_of]);
    assert_eq!(sizes, [rules.floor(), rules.cap(), rules.multiple_of]);
    assert!((evidence.floor..=evidence.cap).contains(&evidence.step));
}
