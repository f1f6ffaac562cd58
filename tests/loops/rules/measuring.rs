//! Tests that measuring policies keep the rules whatever they measure: sizes that fail at random, memory that reports
//! nonsense, clocks that stand still or jump, and size caches filled by other policies.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use toma::memory::{MemorySource, Reading, Usage};
use toma::policy::Policy;
use toma::{Adaptive, GlobalCache, Throughput};

use crate::rules::against_twin::{attempts, check_rules};
use crate::rules::cases::{Case, case, check, huge_sequence, shrinking_plan};
use crate::rules::forms::{NAME, with_sizes};
use crate::rules::plan::{Plan, mix};
use crate::rules::script::Script;
use crate::rules::stage::{Notes, Stage};
use crate::rules::twin::{Attempt, BATCH, End, Fate, Story};

/// A policy of the library, measuring or not.
#[derive(Clone, Copy, Debug)]
enum Chosen {
    Adaptive { waste: f64, tolerance: f64, headroom: f64, doubt: f64 },
    Throughput(f64),
    Other(Plan),
}

impl Chosen {
    fn policy(self) -> Box<dyn Policy> {
        match self {
            Self::Adaptive { waste, tolerance, headroom, doubt } => {
                let adaptive = Adaptive::default().waste(waste).tolerance(tolerance);
                Box::new(adaptive.headroom(headroom).doubt(doubt))
            }
            Self::Throughput(tolerance) => Box::new(Throughput::within(tolerance)),
            Self::Other(plan) => plan.policy(),
        }
    }
}

fn chosen() -> impl Strategy<Value = Chosen> {
    let share = || prop_oneof![Just(0.0), Just(0.02), Just(1.0), 0.0..1.0];
    let adaptive = (share(), share(), share(), share()).prop_map(|(waste, tolerance, headroom, doubt)| {
        Chosen::Adaptive { waste, tolerance, headroom, doubt }
    });
    prop_oneof![
        4 => adaptive,
        2 => (0.0..1.0).prop_map(Chosen::Throughput),
        1 => shrinking_plan().prop_map(Chosen::Other),
    ]
}

/// A memory that reports arbitrary figures, or none.
#[derive(Debug)]
struct Liar<'a> {
    stage: &'a Stage,
    script: &'a Script,
    counts: bool,
}

impl Liar<'_> {
    fn random(&self, draw: usize) -> u64 {
        let random = mix(self.script.seed, [self.stage.attempts(), draw, 5]);
        // Mostly small figures, sometimes none, and rarely figures that overflow.
        match random % 16 {
            0 => 0,
            1 => u64::MAX,
            _ => (random >> 8) % 1000,
        }
    }
}

impl MemorySource for Liar<'_> {
    fn name(&self) -> &str {
        self.stage.name()
    }

    fn read(&self) -> io::Result<Reading> {
        if self.random(0).is_multiple_of(4) {
            return Err(io::Error::other("not now"));
        }
        Ok(Reading::new(self.random(1), self.random(2)))
    }

    fn usage(&self) -> Option<Usage> {
        let usage = Usage::new(self.random(3), self.random(4));
        (self.counts && self.random(6) > 0).then(|| usage.retried(self.random(7)))
    }

    fn staleness(&self) -> Duration {
        Duration::ZERO
    }
}

/// Makes one call and compares it with the rules.
fn perform(case: &Case, policy: &dyn Policy, cache: &GlobalCache, counts: bool) {
    let notes = Notes::default();
    let stage = Stage::new(&case.script, &notes);
    #[cfg(feature = "testing")]
    let clock = toma::testing::StoppedClock::new();
    let act = |start, end| {
        #[cfg(feature = "testing")]
        clock.advance(time_of_an_attempt(case.script.seed, stage.attempts()));
        stage.act(start, end).map(drop)
    };
    let liar = Liar { stage: &stage, script: &case.script, counts };
    let with = with_sizes!(&case.rules).cache(cache).policy(policy).device(&liar);
    let with = with.classify(crate::rules::stage::Fault::failure);
    let run = || match case.total {
        BATCH => with.batch(case.rules.initial, |size| act(0, size)),
        total => with.range(0..total, case.rules.initial, act),
    };
    let ended = catch_unwind(AssertUnwindSafe(run));
    let story = retold(&notes, case, matches!(ended, Ok(Ok(()))));
    check_rules(&story, case, None);
    check_pieces(&story, case);
}

/// A clock that stands still, advances, or jumps far ahead.
#[cfg(feature = "testing")]
fn time_of_an_attempt(seed: u64, number: usize) -> Duration {
    match seed % 3 {
        0 => Duration::ZERO,
        1 => Duration::from_millis(100),
        _ => Duration::from_secs(if number.is_multiple_of(9) { 1 << 40 } else { 0 }),
    }
}

/// Converts the notes to a story, to check the rules of the twin.
fn retold(notes: &Notes, case: &Case, done: bool) -> Story {
    let seen = attempts(&notes.take());
    let received = seen.iter().enumerate().map(|(number, &(start, end))| {
        let fate = case.script.fate(number, start, end);
        Attempt { start, end, fate }
    });
    let attempts: Vec<Attempt> = received.collect();
    let end = if done { End::Done } else { End::Passed(attempts.len().saturating_sub(1)) };
    Story { attempts, end, learned: None, asked: Vec::new(), leaned: Vec::new() }
}

/// Asserts that no piece has more attempts than allowed, that a call has only a few attempts per item, and that a
/// failed call had a reason to fail.
fn check_pieces(story: &Story, case: &Case) {
    let items = if case.total == BATCH { 0 } else { case.total };
    assert!(story.attempts.len() <= 500 + 4 * items, "{} attempts for {items}", story.attempts.len());
    let mut tries = 0;
    for attempt in &story.attempts {
        tries += 1;
        assert!(tries <= case.rules.max_attempts);
        tries = if attempt.fate == Fate::Success { 0 } else { tries };
    }
    let Some(last) = story.attempts.last().filter(|_| story.end != End::Done) else { return };
    assert_ne!(last.fate, Fate::Success, "it ended although the last attempt succeeded");
    if last.fate == Fate::OutOfMemory {
        let is_smallest = last.end - last.start <= case.rules.floor();
        assert!(is_smallest || tries == case.rules.max_attempts, "it gave up early");
    }
}

fn calls() -> impl Strategy<Value = Vec<(Case, Chosen, bool)>> {
    vec((case(Just(Plan::Halve)), chosen(), any::<bool>()), 1..=4)
}

fn play(calls: &[(Case, Chosen, bool)], total: impl Fn(&Case) -> usize) {
    let cache = GlobalCache::new();
    for (case, chosen, counts) in calls {
        let case = Case { total: total(case), ..case.clone() };
        let policy = chosen.policy();
        for _ in 0..2 {
            perform(&case, &*policy, &cache, *counts);
        }
    }
    assert!(cache.entries().len() <= 1 && cache.entries().iter().all(|entry| entry.name == NAME));
}

#[test]
fn ranges() {
    check(calls(), |calls| play(calls, |case| case.total));
}

#[test]
fn long_ranges() {
    check(calls(), |calls| play(calls, |case| case.total * 5));
}

#[test]
fn batches() {
    check(calls(), |calls| play(calls, |_| BATCH));
}

#[test]
fn huge_batches() {
    let huge = (huge_sequence(), chosen(), any::<bool>());
    check(huge, |(sequence, chosen, counts)| {
        let calls: Vec<_> = sequence.calls.iter().map(|case| (case.clone(), *chosen, *counts)).collect();
        play(&calls, |_| BATCH);
    });
}
