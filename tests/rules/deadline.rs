//! No retry starts after the deadline; until then it changes nothing.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use proptest::prelude::Strategy;

use crate::against_twin::check_ending;
use crate::cases::{Case, case, check, shrinking_plan};
use crate::forms::{Ending, with_sizes};
use crate::noise::printed;
use crate::stage::{Fault, Notes, Stage};
use crate::twin::{End, Fate, tell};

#[derive(Clone, Debug)]
struct Race {
    case: Case,
    deadline: Duration,
    /// How long each attempt takes.
    work: Duration,
}

fn race() -> impl Strategy<Value = Race> {
    (case(shrinking_plan()), 0..150_u64, 0..40_u64).prop_map(|(case, deadline, work)| Race {
        case: Case { total: case.total.min(30), ..case },
        deadline: Duration::from_micros(deadline),
        work: Duration::from_micros(work),
    })
}

/// When an attempt began and ended, on the body's side.
type Times = (Instant, Instant);

#[test]
fn no_retry_starts_after_it() {
    check(race(), |race| {
        let Race { case, deadline, work } = race;
        let stage = Stage::new(&case.script, &Notes::default());
        let times = RefCell::new(Vec::new());
        let called = Instant::now();
        let (ending, printed) = printed(|| run(case, *deadline, *work, (&stage, &times)));
        let returned = Instant::now();
        let story = tell(case.total, &case.rules, case.plan, None, &mut &case.script);
        let times = times.into_inner();
        assert_eq!(printed, usize::from(matches!(ending, Ending::Panic(_))), "panics printed");
        assert!(times.len() <= story.attempts.len());
        for (number, pair) in times.windows(2).enumerate() {
            // The call began at the latest when its first attempt did.
            let retried = story.attempts[number].fate != Fate::Success;
            assert!(!retried || pair[0].1 < times[0].0 + *deadline, "attempt {number} was retried too late");
        }
        if times.len() < story.attempts.len() {
            assert!(returned >= called + *deadline, "gave up too early");
            check_ending(&ending, &End::Passed(times.len() - 1), &stage, &case.script);
        } else {
            check_ending(&ending, &story.end, &stage, &case.script);
        }
    });
}

fn run(
    case: &Case,
    deadline: Duration,
    work: Duration,
    (stage, times): (&Stage, &RefCell<Vec<Times>>),
) -> Ending {
    Ending::of(|| {
        let with = with_sizes!(&case.rules).policy(case.plan.policy()).device(stage).deadline(deadline);
        with.classify(Fault::failure).range(0..case.total, case.rules.initial, |start, end| {
            let begun = Instant::now();
            while begun.elapsed() < work {}
            times.borrow_mut().push((begun, Instant::now()));
            stage.act(start, end).map(drop)
        })?;
        Ok(None)
    })
}
