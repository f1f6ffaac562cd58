//! Every rung of the ladder, through forms of every kind: the attempts, the order of clean-up and the messages are
//! exactly those of the rules.
//!
//! Hooks and observers are process-wide, so these tests have a process of their own.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use proptest::prelude::{Strategy, any};
use toma::device::{Ladder, Pressure, on_release};
use toma::leaner::{self, Lean};
use toma::memory::MemorySource;
use toma::observe::{Answer, Event, EventKind, everywhere};
use toma::{GlobalCache, NoCache, execute};

use crate::child;
use crate::kit::Memory;
use crate::rounds::rounds;
use crate::rules::against_twin::{fitted, perform_on, remembered};
use crate::rules::cases::{Case, case, check_some, shrinking_plan};
use crate::rules::forms::Form;
use crate::rules::stage::{Note, Notes, Stage};
use crate::rules::twin::{End, Fate, Rungs, World, replay};

const FORMS: [Form; 9] = [
    Form::Batch,
    Form::Range,
    Form::RangeUnit,
    Form::Map,
    Form::Fold,
    Form::SliceMut,
    Form::AttributeRange,
    Form::AttributeBatchAsync,
    Form::AttributeRangeAsync,
];

/// A call while other calls use the device.
#[derive(Clone, Debug)]
struct Crowded {
    case: Case,
    rungs: Rungs,
    /// Attempts during which others use the device, one bit each.
    others: u64,
    /// Attempts after which hooks release memory, one bit each.
    given: u64,
    plans: Plans,
}

/// Attempts that offer a leaner plan, and attempts after which the offer has one; one bit each.
#[derive(Clone, Copy, Debug, Default)]
struct Plans {
    offered: u64,
    leaner: u64,
}

fn crowded() -> impl Strategy<Value = Crowded> {
    let rungs = any::<[bool; 4]>().prop_map(|[release, wait, hooks, fallback]| Rungs {
        release,
        wait,
        hooks,
        fallback,
    });
    let bits = any::<[u64; 5]>();
    (case(shrinking_plan()), rungs, bits, any::<bool>()).prop_map(|(case, rungs, bits, offers)| {
        let [one, other, given, offered, leaner] = bits;
        let plans = Plans { offered: if offers { offered } else { 0 }, leaner };
        Crowded { case, rungs, others: one & other, given, plans }
    })
}

pub(crate) fn bit(bits: u64, number: usize) -> bool {
    bits >> (number % 64) & 1 == 1
}

/// A call among others; true if its call site has offered plans before.
struct CrowdedWorld<'a>(&'a Crowded, bool);

impl World for CrowdedWorld<'_> {
    fn fate(&mut self, number: usize, start: usize, end: usize) -> Fate {
        self.0.case.script.fate(number, start, end)
    }

    fn is_error(&self, number: usize) -> bool {
        self.0.case.script.is_error(number)
    }

    fn is_memory_low(&self, number: usize) -> bool {
        self.0.case.script.is_memory_low(number)
    }

    fn rungs(&self) -> Rungs {
        self.0.rungs
    }

    fn others(&self, number: usize) -> bool {
        bit(self.0.others, number)
    }

    fn offers(&self, number: usize) -> bool {
        bit(self.0.plans.offered, number)
    }

    fn leans(&self, number: usize) -> bool {
        bit(self.0.plans.leaner, number)
    }

    fn has_offered(&self) -> bool {
        self.1
    }

    fn hooks_give(&self, number: usize) -> bool {
        bit(self.0.given, number)
    }
}

thread_local! {
    /// Surroundings of the call of this thread.
    static AROUND: RefCell<Option<Around>> = const { RefCell::new(None) };
}

/// Other calls and hooks around a call.
#[derive(Default)]
struct Around {
    /// Attempts during which others use the device, one bit each.
    others: u64,
    /// Attempts after which hooks release memory, one bit each.
    given: u64,
    plans: Plans,
    notes: Notes,
    device: String,
    /// Number of attempts so far.
    attempts: usize,
    other: Option<Other>,
}

/// An attempt of another thread that waits for nothing, and so runs next to exclusive attempts, too.
struct Other {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Other {
    fn on(device: &str) -> Self {
        let ((stop, stopped), (begin, running)) = (channel(), channel());
        let device = Memory::named(device.to_owned().leak(), 0, 0);
        device.cannot_be_read();
        let thread = thread::spawn(move || other(&device, &begin, &stopped));
        running.recv().unwrap();
        Self { stop, thread }
    }

    fn end(self) {
        self.stop.send(()).unwrap();
        self.thread.join().unwrap();
    }
}

fn other(device: &Memory, running: &Sender<()>, stopped: &Receiver<()>) {
    let ladder = Ladder::default().without_waiting();
    let with = execute::with::<NoCache>().device(device).ladder(ladder).name("other");
    with.batch(1, |_| {
        running.send(()).unwrap();
        stopped.recv().unwrap();
    });
}

impl Around {
    fn clear(&mut self) {
        if let Some(other) = self.other.take() {
            other.end();
        }
    }
}

/// Ends the other attempt once the call waits for its device or falls back to another memory.
pub(crate) fn see(event: &Event<'_>) {
    let is_over = matches!(
        event.kind,
        EventKind::Waits { .. } | EventKind::Answered { answer: Answer::FallBack(_), .. }
    );
    AROUND.with_borrow_mut(|around| {
        if let Some(around) = around.as_mut().filter(|_| is_over && event.name != "other") {
            around.clear();
        }
    });
}

/// Called in the middle of an attempt: others come, stay or go.
pub(crate) fn meet_others() {
    AROUND.with_borrow_mut(|around| {
        let Some(around) = around else { return };
        around.attempts += 1;
        if bit(around.plans.offered, around.attempts - 1) {
            leaner::offer(Arc::new(Plan));
        }
        if !bit(around.others, around.attempts - 1) {
            around.clear();
        } else if around.other.is_none() {
            around.other = Some(Other::on(&around.device));
        }
    });
}

/// Runs `call` while others use the device of the stage during these attempts.
pub(crate) fn among_others<R>(others: u64, stage: &Stage, call: impl FnOnce() -> R) -> R {
    AROUND.set(Some(Around { others, device: stage.name().to_owned(), ..Around::default() }));
    let result = call();
    AROUND.take().expect("it was set").clear();
    result
}

/// Asked on the thread of the call, or of the task that works.
struct Plan;

impl Lean for Plan {
    fn lean(&self) -> bool {
        AROUND.with_borrow(|around| {
            let around = around.as_ref().expect("it is asked in a call");
            around.notes.write(Note::Leaned);
            bit(around.plans.leaner, around.attempts - 1)
        })
    }
}

fn asked(pressure: &Pressure<'_>) -> bool {
    AROUND.with_borrow(|around| {
        let Some(around) = around else { return false };
        assert_eq!(pressure.device, around.device);
        around.notes.write(Note::Asked);
        bit(around.given, around.attempts - 1)
    })
}

fn play(form: Form, crowded: &Crowded) {
    let case = &fitted(form, &crowded.case);
    let crowded = Crowded { case: case.clone(), ..crowded.clone() };
    let Rungs { release, wait, hooks, fallback } = crowded.rungs;
    let has_offered = OFFERED.lock().unwrap().contains(&form);
    let story = replay(case.total, &case.rules, case.plan, None, &mut CrowdedWorld(&crowded, has_offered));
    if (0..story.attempts.len()).any(|number| bit(crowded.plans.offered, number)) {
        OFFERED.lock().unwrap().push(form);
    }
    let ladder = Ladder::default().release_and_retry(release).hooks(hooks).fallback(fallback);
    let ladder = if wait { ladder.wait(Duration::from_secs(600)) } else { ladder.without_waiting() };
    let notes = Notes::default();
    let stage = Stage::new(&case.script, &notes).untouched();
    let cache = GlobalCache::new();
    among_others(crowded.others, &stage, || {
        AROUND.with_borrow_mut(|around| {
            let around = around.as_mut().expect("it is set");
            (around.given, around.plans, around.notes) = (crowded.given, crowded.plans, notes.clone());
        });
        perform_on(&stage, &notes, ladder, (form, case, &cache, &story));
    });
    assert_eq!(remembered(&cache.entries()), story.learned, "what the cache remembers");
    assert!(story.end != End::NotSmaller(0, 0), "these plans shrink");
}

/// Forms that have offered plans; each form is one call site.
static OFFERED: Mutex<Vec<Form>> = Mutex::new(Vec::new());

#[test]
fn every_rung_is_climbed_by_the_rules() {
    if let Some(ended) = child::run("rules::ladder::every_rung_is_climbed_by_the_rules", &[]) {
        ended.passed();
        return;
    }
    let (_seen, _hooked) = (everywhere(see), on_release(asked));
    for form in FORMS {
        check_some(rounds(500, 1500), crowded(), |crowded| play(form, crowded));
    }
}
