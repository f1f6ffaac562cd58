//! The forms without `with`, which use the default cache, policy and options.

use std::cell::RefCell;

use proptest::prelude::Strategy;
use toma::{execute, report};

use crate::printed::printed;
use crate::rules::against_twin::{attempts, check_ending};
use crate::rules::cases::{check, script};
use crate::rules::forms::Ending;
use crate::rules::plan::Plan;
use crate::rules::script::Script;
use crate::rules::stage::{Fault, Notes, Stage};
use crate::rules::twin::{BATCH, Bounds, Known, Rules, replay};

#[derive(Clone, Debug)]
struct Short {
    form: u8,
    total: usize,
    initial: usize,
    script: Script,
}

fn short() -> impl Strategy<Value = Short> {
    (0..5_u8, 0..=60_usize, 1..=60_usize, script()).prop_map(|(form, total, initial, script)| Short {
        form,
        total: if form == 0 { BATCH } else { total },
        initial,
        // No transient failures: their handling depends on the free memory of the host.
        script: Script { others: 0, ..script },
    })
}

#[test]
fn go_as_the_long_forms() {
    check(short(), |short| {
        let Short { total, initial, script, .. } = short;
        let notes = Notes::default();
        let stage = Stage::new(script, &notes);
        let (ending, printed) = printed(|| Ending::of(|| run(short, &stage)));
        assert_eq!(printed, usize::from(matches!(ending, Ending::Panic(_))));
        let report = report::last().unwrap();
        let known = report.remembered.map(|settled| Known { settled, bounds: Bounds::default() });
        let initial = *initial;
        let rules = Rules { initial, min: 1, max: usize::MAX, multiple_of: 1, max_attempts: usize::MAX };
        let story = replay(*total, &rules, Plan::Halve, known, &mut &*script);
        let expected: Vec<_> = story.attempts.iter().map(|a| (a.start, a.end)).collect();
        assert_eq!(attempts(&notes.take()), expected, "from {known:?}");
        check_ending(&ending, &story.end, &stage, script);
        assert_eq!(report.settled, story.learned.map(|learned| learned.settled));
    });
}

fn run(short: &Short, stage: &Stage) -> Result<Option<Vec<usize>>, Fault> {
    let (total, initial) = (short.total, short.initial);
    match short.form {
        0 => execute::batch(initial, |size| stage.act(0, size)).map(|_| None),
        1 => execute::range(0..total, initial, |start, end| stage.act(start, end).map(drop)).map(|()| None),
        2 => execute::map(0..total, initial, |start, end| stage.act(start, end)).map(|_| None),
        3 => execute::fold(0..total, initial, 0, |so_far, start, end| Ok(so_far + stage.act(start, end)?))
            .map(|_| None),
        _ => {
            let data = RefCell::new(vec![0; total]);
            execute::chunked(&mut data.borrow_mut()[..], initial, |_chunk, start, end| {
                stage.act(start, end).map(drop)
            })
            .map(|()| None)
        }
    }
}
