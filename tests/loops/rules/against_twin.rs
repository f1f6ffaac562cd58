//! Compares every form with the twin: attempts, endings, memory readings, order of clean-up, and printed panics.

use proptest::strategy::Strategy;
use std::cell::RefCell;
use std::time::Duration;

use toma::cache::Entry;
use toma::cache::SizeCache;
use toma::device::Ladder;
use toma::policy::Policy;
use toma::{GlobalCache, NoCache, StacktraceMemoryCache};

use crate::printed::printed;
use crate::rules::cases::{Case, Sequence, check, huge_sequence, sequence};
use crate::rules::forms::{Ending, Form, NAME, Scene};
use crate::rules::script::Script;
use crate::rules::stage::{Note, Notes, Stage, id_in};
use crate::rules::twin::{Attempt, BATCH, Bounds, End, Fate, Known, Rules, Story, replay};

macro_rules! properties {
    ($($name:ident: $form:ident;)*) => {$(
        #[test]
        fn $name() {
            check(sequence(), |sequence| play(Form::$form, sequence));
        }
    )*};
}

properties! {
    batch: Batch;
    range: Range;
    range_of_nothing: RangeUnit;
    range_of_boxed_errors: RangeBoxed;
    map: Map;
    map_of_plain_values: MapPlain;
    fold: Fold;
    chunked_slice: Slice;
    chunked_mut_slice: SliceMut;
    chunked_tuple: Tuple;
    attribute_batch: AttributeBatch;
    attribute_batch_of_i64: AttributeBatchI64;
    attribute_range: AttributeRange;
    attribute_range_of_i64: AttributeRangeI64;
    attribute_range_of_nothing: AttributeRangeUnit;
    attribute_chunked: AttributeChunked;
    attribute_chunked_of_i64: AttributeChunkedI64;
    attribute_chunked_without_initial: AttributeChunkedWhole;
    attribute_batch_of_async: AttributeBatchAsync;
    attribute_range_of_async: AttributeRangeAsync;
    attribute_chunked_of_async: AttributeChunkedAsync;
}

#[test]
fn batch_of_huge_sizes() {
    check(huge_sequence(), |sequence| play(Form::Batch, sequence));
}

#[test]
fn no_cache_starts_at_initial_every_time() {
    check(sequence(), |sequence| {
        for case in &sequence.calls {
            let case = &fitted(Form::Range, case);
            let story = replay(case.total, &case.rules, case.plan, None, &mut &case.script);
            perform(Form::Range, case, &NoCache, &story);
        }
    });
}

#[test]
fn stacktrace_cache_at_one_level_of_free_memory() {
    // A reading that failed would be a level of its own, so every reading succeeds here.
    let readable = sequence().prop_map(|mut sequence| {
        for case in &mut sequence.calls {
            case.script.memory = case.script.memory.map(|memory| memory.or(Some((2, 13))));
        }
        sequence
    });
    check(readable, |sequence| {
        let cache = StacktraceMemoryCache::new();
        if let Some(seed) = sequence.seed {
            cache.seed(NAME, seed);
        }
        play_on(Form::Map, sequence, &cache, || cache.entries());
    });
}

/// Makes the calls of a sequence one after the other, and compares each with the twin.
fn play(form: Form, sequence: &Sequence) {
    let cache = GlobalCache::new();
    if let Some(seed) = sequence.seed {
        cache.seed(NAME, seed);
    }
    play_on(form, sequence, &cache, || cache.entries());
}

fn play_on(form: Form, sequence: &Sequence, cache: &dyn SizeCache, entries: impl Fn() -> Vec<Entry>) {
    let mut known = sequence.seed.map(|settled| Known { settled, bounds: Bounds::default() });
    let mut learned = None;
    for case in &sequence.calls {
        let case = &fitted(form, case);
        let story = replay(case.total, &case.rules, case.plan, known, &mut &case.script);
        check_rules(&story, case, known);
        perform(form, case, cache, &story);
        learned = story.learned.or(learned);
        known = learned.or(known);
        assert_eq!(remembered(&entries()), learned, "what the cache remembers");
    }
}

/// Returns the case with the restrictions of the form applied.
pub(crate) fn fitted(form: Form, case: &Case) -> Case {
    let requested = case.script.requested.filter(|_| form.knows_requested());
    let script = Script { requested, panics_only: form.panics_only(), ..case.script.clone() };
    let initial = if form == Form::AttributeChunkedWhole { usize::MAX } else { case.rules.initial };
    let total = if form.is_batch() { BATCH } else { case.total };
    let offset = if form.has_range() { case.offset } else { 0 };
    Case { total, offset, script, rules: Rules { initial, ..case.rules }, ..case.clone() }
}

/// Makes one call and compares everything observable with the story.
fn perform(form: Form, case: &Case, cache: &dyn SizeCache, story: &Story) {
    let notes = Notes::default();
    let stage = Stage::new(&case.script, &notes);
    perform_on(&stage, &notes, Ladder::default(), (form, case, cache, story));
}

/// One call, together with the story that predicts it.
type Replayed<'a> = (Form, &'a Case, &'a dyn SizeCache, &'a Story);

/// Makes and compares one call on the stage of the caller.
pub(crate) fn perform_on(
    stage: &Stage,
    notes: &Notes,
    ladder: Ladder<'static>,
    (form, case, cache, story): Replayed<'_>,
) {
    let policy: &dyn Policy = &*case.plan.policy();
    let items = if form.is_batch() { 0 } else { case.total };
    let scene = Scene {
        total: case.total,
        offset: case.offset,
        rules: case.rules,
        policy,
        cache,
        stage,
        ladder,
        deadline: case.deadline.then_some(Duration::from_secs(3600)),
        out: RefCell::new(vec![0; items]),
    };
    let (ending, printed) = printed(|| form.perform(&scene));
    // Taken before the ending is dropped, because dropping the failure in it would add a note.
    let seen = notes.take();
    assert_eq!(attempts(&seen), story.attempts.iter().map(|a| (a.start, a.end)).collect::<Vec<_>>());
    check_ending(&ending, &story.end, stage, &case.script);
    assert_eq!(printed, usize::from(matches!(ending, Ending::Panic(_))), "panics printed");
    check_notes(form, &seen, story, stage);
    if story.end == End::Done && !matches!(form, Form::Slice | Form::AttributeChunkedI64) {
        check_values(&ending, story, &scene.out.borrow());
    }
}

pub(crate) fn attempts(notes: &[Note]) -> Vec<(usize, usize)> {
    let attempt = |note: &Note| match *note {
        Note::Attempt(start, end) => Some((start, end)),
        _ => None,
    };
    notes.iter().filter_map(attempt).collect()
}

/// Asserts that the failure that comes out is the failure of the last attempt itself.
pub(crate) fn check_ending(ending: &Ending, expected: &End, stage: &Stage, script: &Script) {
    match (expected, ending) {
        (End::Done, Ending::Done(_)) => {}
        (&End::Passed(number), Ending::Error(fault)) => {
            assert_eq!((fault.id, number + 1), (stage.id(number), stage.attempts()));
            assert!(script.is_error(number), "the panic of attempt {number} came out as an error");
        }
        (&End::Passed(number), Ending::Panic(payload)) => {
            assert_eq!(id_in(&**payload), Some(stage.id(number)), "payload {:?}", words(ending));
            assert!(!script.is_error(number), "the error of attempt {number} came out as a panic");
        }
        (End::NotSmaller(answer, size), Ending::Panic(_)) => {
            let text = words(ending).unwrap_or_default();
            let expected = format!("answered {answer} after a failure at {size}: must be smaller");
            assert!(text.contains(&expected) && text.contains("policy Stuck("), "{text}");
        }
        _ => panic!("{expected:?} expected, not {ending:?} ({:?})", words(ending)),
    }
}

/// Returns the text of a panic.
fn words(ending: &Ending) -> Option<String> {
    match ending {
        Ending::Panic(payload) => payload.downcast_ref::<String>().cloned(),
        _ => None,
    }
}

/// Between a failed attempt and its retry, the failure is dropped, then `before_retry` runs, then the device releases
/// its cached memory. None of these happens after a success or the last failure.
fn check_notes(form: Form, seen: &[Note], story: &Story, stage: &Stage) {
    let mut expected = Vec::new();
    for (number, attempt) in story.attempts.iter().enumerate() {
        let is_last = number + 1 == story.attempts.len();
        expected.push(Note::Attempt(attempt.start, attempt.end));
        if attempt.fate == Fate::Success || is_last && matches!(story.end, End::Passed(_)) {
            continue;
        }
        // Some payloads leave no note when they are dropped.
        let dropped = Note::Dropped(stage.id(number));
        expected.extend(seen.contains(&dropped).then_some(dropped));
        if is_last {
            continue;
        }
        if form.undoes() {
            expected.push(Note::Undone(attempt.start, attempt.end));
        }
        expected.push(Note::Released);
        if story.leaned.contains(&number) {
            expected.push(Note::Leaned);
        }
        if story.asked.contains(&number) {
            expected.push(Note::Asked);
        }
    }
    let cleaned: Vec<_> = seen.iter().copied().filter(|note| *note != Note::Read).collect();
    assert_eq!(cleaned, expected);
    check_reads(seen, story);
}

/// The memory is read only after a failure that has to do with memory, and at the end of a call that settled a size.
fn check_reads(seen: &[Note], story: &Story) {
    let mut fates = story.attempts.iter().map(|attempt| attempt.fate);
    let mut fate = Fate::Success;
    for note in seen {
        match note {
            Note::Attempt(..) => fate = fates.next().unwrap_or(Fate::Success),
            Note::Read => {
                let failed = matches!(fate, Fate::OutOfMemory | Fate::Transient);
                let settled = story.learned.is_some() && fates.len() == 0;
                assert!(failed || settled, "read after {fate:?}");
            }
            _ => {}
        }
    }
}

/// Asserts that each item was written last by the attempt that succeeded with it, and that values come back in order.
fn check_values(ending: &Ending, story: &Story, out: &[usize]) {
    let successes: Vec<_> =
        story.attempts.iter().enumerate().filter(|(_, a)| a.fate == Fate::Success).collect();
    if let Ending::Done(Some(values)) = ending {
        assert_eq!(*values, successes.iter().map(|(number, _)| *number).collect::<Vec<_>>());
    }
    if !out.is_empty() {
        let writes = successes.iter().flat_map(|(number, a)| vec![number + 1; a.end - a.start]);
        assert_eq!(out, writes.collect::<Vec<_>>());
    }
}

pub(crate) fn remembered(entries: &[Entry]) -> Option<Known> {
    assert!(entries.len() <= 1, "{entries:?}");
    entries.first().map(|entry| {
        assert_eq!(entry.name, NAME);
        let bounds = entry.remembered.bounds;
        let bounds = Bounds { works: bounds.largest_success, fails: bounds.smallest_failure };
        Known { settled: entry.remembered.settled, bounds }
    })
}

/// Asserts rules that hold for every story, so that the twin and the engine cannot be wrong together.
pub(crate) fn check_rules(story: &Story, case: &Case, known: Option<Known>) {
    let (total, rules) = (case.total, &case.rules);
    let mut position = 0;
    let mut same = 0;
    for (number, &Attempt { start, end, fate }) in story.attempts.iter().enumerate() {
        let size = end - start;
        assert_eq!(start, position, "a piece is retried from its own start, and no other is");
        assert!(size > 0 && size <= rules.initial && size <= rules.max);
        let is_rest = total != BATCH && end == total;
        assert!(is_rest || size.is_multiple_of(rules.multiple_of) && size >= rules.floor());
        if let Some(before) = number.checked_sub(1).map(|before| story.attempts[before]) {
            let is_again = before.fate == Fate::Transient && before.end == end && same == 0;
            same = usize::from(is_again);
            assert!(before.fate == Fate::Success || end < before.end || is_again, "no identical attempt");
        }
        if fate == Fate::Success {
            (position, same) = (end, 0);
        }
    }
    if story.end == End::Done && total != BATCH {
        assert_eq!(position, total, "all is done");
    }
    let Some(learned) = story.learned else { return };
    assert!((rules.floor()..=rules.cap()).contains(&learned.settled));
    let failed = story.attempts.iter().any(|attempt| attempt.fate != Fate::Success);
    assert!(failed || known.is_some_and(|known| known.settled < learned.settled), "nothing is settled");
}
