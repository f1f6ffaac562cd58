//! Tests that no retry starts after the deadline, and that the deadline changes nothing before.

use std::time::Duration;

use proptest::prelude::Strategy;
use toma::testing::StoppedClock;

use crate::printed::printed;
use crate::rules::against_twin::{attempts, check_ending};
use crate::rules::cases::{Case, case, check, shrinking_plan};
use crate::rules::forms::{Ending, with_sizes};
use crate::rules::stage::{Fault, Notes, Stage};
use crate::rules::twin::{End, Fate, Story, replay};

#[derive(Clone, Debug)]
struct Race {
    case: Case,
    deadline: Duration,
    /// Duration of each attempt.
    work: Duration,
}

fn race() -> impl Strategy<Value = Race> {
    (case(shrinking_plan()), 0..40_u64, 0..10_u64).prop_map(|(case, deadline, work)| Race {
        case,
        deadline: Duration::from_secs(deadline),
        work: Duration::from_secs(work),
    })
}

impl Race {
    /// Returns the story without a deadline, up to the first failure at or after the deadline.
    fn replay(&self) -> Story {
        let Self { case, deadline, work } = self;
        let mut story = replay(case.total, &case.rules, case.plan, None, &mut &case.script);
        let is_late = |number: usize| *work * (number as u32 + 1) >= *deadline;
        let failed = |number: &usize| story.attempts[*number].fate != Fate::Success;
        if let Some(last) = (0..story.attempts.len()).filter(failed).find(|&number| is_late(number)) {
            story.attempts.truncate(last + 1);
            story.end = End::Passed(last);
        }
        story
    }

    fn run(&self, stage: &Stage) -> Ending {
        let Self { case, deadline, work } = self;
        let clock = StoppedClock::new();
        Ending::of(|| {
            let with = with_sizes!(&case.rules).policy(case.plan.policy()).device(stage).deadline(*deadline);
            with.classify(Fault::failure).range(0..case.total, case.rules.initial, |start, end| {
                clock.advance(*work);
                stage.act(start, end).map(drop)
            })?;
            Ok(None)
        })
    }
}

#[test]
fn no_retry_starts_after_it() {
    check(race(), |race| {
        let (notes, story) = (Notes::default(), race.replay());
        let stage = Stage::new(&race.case.script, &notes);
        let (ending, printed) = printed(|| race.run(&stage));
        assert_eq!(printed, usize::from(matches!(ending, Ending::Panic(_))), "panics printed");
        let expected: Vec<_> = story.attempts.iter().map(|attempt| (attempt.start, attempt.end)).collect();
        assert_eq!(attempts(&notes.take()), expected);
        check_ending(&ending, &story.end, &stage, &race.case.script);
    });
}
