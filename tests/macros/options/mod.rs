//! Tests that every option has the same effect under the same name, in every form in which it has a meaning.
//!
//! A form is written once, with every option that it has. A row of [`ROWS`] gives one option another value than
//! [`Trial::fitting`] does, and checks the effect on the call. The rows are run with each form.

mod forms;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use toma::cache::{Place, Remembered, SizeCache};
use toma::classify::Class;
use toma::device::{Ladder, falls_back};
use toma::observe::{Answer, Event, EventKind, Observer};
use toma::policy::Policy;
use toma::predict::{DryCall, Predict, PredictedSize, is_dry, run_dry};
use toma::ranks::{Member, threads, when_agreed};
use toma::{Decay, GlobalCache, Halve, NoCache, report};

use crate::kit::Memory;
use forms::{Form, INLINE, attributes, attributes_with_type};

/// Items to do. All sizes of the table divide their number.
const RANGE: Range<usize> = 1000..1240;

/// An option, and the check of its effect in a form.
type Row = (&'static str, fn(Form));

const ROWS: [Row; 20] = [
    ("cache", |form| {
        // The given instance remembers the size, and no other cache does.
        let (one, other) = (GlobalCache::new(), GlobalCache::new());
        let sizes = |cache| Trial { cache: Some(cache), ..Trial::fitting(4) }.succeeds(form);
        assert_eq!([sizes(&one), sizes(&one)], [vec![16, 8, 4], vec![4]]);
        assert_eq!(sizes(&other), [16, 8, 4]);
    }),
    ("initial", |form| assert_eq!(Trial { initial: 12, ..Trial::fitting(99) }.succeeds(form), [12])),
    ("min", |form| {
        assert_eq!(Trial { min: 8, ..Trial::fitting(8) }.succeeds(form), [16, 8]);
        assert_eq!(Trial { min: 8, ..Trial::fitting(7) }.fails(form), [16, 8]);
    }),
    ("max", |form| assert_eq!(Trial { max: 12, ..Trial::fitting(6) }.succeeds(form), [12, 6])),
    ("multiple_of", |form| {
        assert_eq!(Trial { multiple_of: 5, ..Trial::fitting(14) }.succeeds(form), [15, 5]);
        assert_eq!(Trial { multiple_of: 5, ..Trial::fitting(4) }.fails(form), [15, 5]);
    }),
    ("max_attempts", |form| {
        assert_eq!(Trial { max_attempts: 3, ..Trial::fitting(4) }.succeeds(form), [16, 8, 4]);
        assert_eq!(Trial { max_attempts: 3, ..Trial::fitting(3) }.fails(form), [16, 8, 4]);
    }),
    ("deadline", |form| {
        assert_eq!(Trial { deadline: Duration::ZERO, ..Trial::fitting(8) }.fails(form), [16]);
    }),
    ("key", |form| {
        // Calls with different keys learn separately.
        let cache = &GlobalCache::new();
        let trial = |key, limit| Trial { cache: Some(cache), key: (key, "image"), ..Trial::fitting(limit) };
        let sizes = |key, limit| trial(key, limit).succeeds(form);
        assert_eq!([sizes(224, 8), sizes(448, 4)], [vec![16, 8], vec![16, 8, 4]]);
        assert_eq!([sizes(224, 8), sizes(448, 4)], [[8], [4]]);
        assert_eq!(cache.entries().len(), 2);
    }),
    ("name", |form| {
        let cache = &GlobalCache::new();
        let trial = Trial { cache: Some(cache), name: "resize", ..Trial::fitting(8) };
        assert_eq!(trial.succeeds(form), [16, 8]);
        assert_eq!(report::last().unwrap().name.to_string(), "resize");
        assert_eq!(cache.entries()[0].name, "resize");
    }),
    ("device", |form| {
        // Read for a prediction. After each failure that is retried, it is read and releases its cached memory.
        let trial = Trial::fitting(4);
        assert_eq!(trial.succeeds(form), [16, 8, 4]);
        assert_eq!((trial.device.readings(), trial.device.releases()), (3, 2));
    }),
    ("ranks", |form| {
        // All ranks make the same attempts.
        let run = |rank, limit| Trial { rank, ..Trial::fitting(limit) }.succeeds(form);
        let sizes: Vec<_> = thread::scope(|scope| {
            let ranks = threads(2).into_iter().zip([usize::MAX, 5]);
            let running: Vec<_> = ranks.map(|(rank, limit)| scope.spawn(move || run(rank, limit))).collect();
            running.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        assert_eq!(sizes[0], sizes[1]);
        assert_eq!(sizes[0][..3], [16, 8, 4]);
    }),
    ("observer", |form| {
        let trial = Trial::fitting(4);
        assert_eq!(trial.succeeds(form), [16, 8, 4]);
        assert_eq!(*trial.observer.0.lock().unwrap(), [(16, 8), (8, 4)]);
    }),
    ("ladder", |form| {
        // Retries other than smaller sizes: here in another memory, once no smaller size is left.
        let ladder = Ladder::default().fallback(true);
        let sizes = Trial { ladder, fallback_limit: 8, ..Trial::fitting(0) }.succeeds(form);
        assert_eq!(sizes, [16, 8, 4, 2, 1, 16, 8]);
        assert_eq!(Trial::fitting(0).fails(form), [16, 8, 4, 2, 1]);
    }),
    ("predict", |form| {
        let sizes = Trial { predict: &Fits(5), ..Trial::fitting(3) }.succeeds(form);
        assert_eq!(sizes[..2], [5, 2], "the first size, where the size cache knows nothing");
        let unread = Trial { predict: &Fits(5), ..Trial::fitting(8) };
        unread.device.cannot_be_read();
        assert_eq!(unread.succeeds(form), [16, 8], "nothing is predicted for a memory that cannot be read");
    }),
    ("predict", |form| {
        // Dry runs of the first items, at sizes that the call could use. An asynchronous body has no dry runs.
        let dry = RunsDry::default();
        let trial = Trial { predict: &dry, ..Trial::fitting(5) };
        let sizes = trial.succeeds(form);
        let (runs, attempts) = (dry.0.load(Relaxed), trial.attempts.borrow());
        let start = attempts[0].start;
        if runs > 0 {
            assert_eq!(attempts[..runs], [4, 4, 8, 8].map(|size| start..start + size));
            assert_eq!(attempts[runs], start..start + 5, "what the dry run says");
        } else {
            assert!(form.0.contains("stream") || form.0.contains("async"));
            assert_eq!(sizes[..3], [16, 8, 4]);
        }
    }),
    ("dim", |form| {
        // The axis along which chunks are cut. Only chunked data has axes.
        let sizes = |dim| Trial { dim, ..Trial::fitting(8) }.succeeds(form);
        let along_last = if form.0.contains("chunked") { [12, 6] } else { [16, 8] };
        assert_eq!([sizes(0), sizes(-2)], [[16, 8], [16, 8]]);
        assert_eq!([sizes(1), sizes(-1)], [along_last; 2]);
    }),
    ("policy", |form| {
        let policy = &Decay::new(0.25);
        assert_eq!(Trial { policy, ..Trial::fitting(4) }.succeeds(form), [16, 4]);
    }),
    ("before_retry", |form| {
        // Runs after each failed attempt that is retried, with the failed items.
        let (trial, hopeless) = (Trial::fitting(4), Trial::fitting(0));
        assert_eq!(trial.succeeds(form), [16, 8, 4]);
        assert_eq!(trial.undone.borrow()[..], trial.attempts.borrow()[..2]);
        assert_eq!(hopeless.fails(form), [16, 8, 4, 2, 1]);
        assert_eq!(hopeless.undone.borrow()[..], hopeless.attempts.borrow()[..4]);
    }),
    ("classify", |form| {
        // Classifies an error that does not implement `std::error::Error`.
        assert_eq!(Trial { classify: |_| Class::Other, ..Trial::fitting(8) }.fails(form), [16]);
        assert_eq!(Trial::fitting(8).succeeds(form), [16, 8]);
    }),
    // Not an option of the attribute: the row of a cache that is given by its type.
    (TYPE, |form| {
        assert_eq!(Trial { cache: None, ..Trial::fitting(2) }.succeeds(form), [4, 2]);
        assert_eq!(RECEIVED.take(), [2]);
    }),
];

const TYPE: &str = "cache = Type";

#[test]
fn every_option_works_in_every_form() {
    let mut cells = 0;
    for (option, effect) in ROWS {
        let attributes = if option == TYPE { attributes_with_type() } else { attributes() };
        for form in INLINE.into_iter().chain(attributes) {
            println!("{option}: {}", form.0);
            effect(form);
            cells += 1;
        }
    }
    assert_eq!(cells, ROWS.len() * (8 + 12));
}

/// The options that an attribute lists when it is given an unknown one, except for two: `crate` changes a path and no
/// call, and `tests/fixtures/renamed` gives it in each form. `padded` counts sizes in another unit, and is tested in
/// `tests/sizes/cost/padded.rs`.
fn options() -> BTreeSet<&'static str> {
    let message = include_str!("../../ui/attribute/unknown_option.stderr").lines().next().unwrap();
    let (_, options) = message.split_once("`#[toma::chunked]` has ").unwrap();
    options.split(", ").filter(|option| !["crate", "padded"].contains(option)).collect()
}

#[test]
fn every_option_has_a_row() {
    let rows: BTreeSet<_> = ROWS.iter().map(|(option, _)| *option).filter(|row| *row != TYPE).collect();
    assert_eq!(rows, options());
}

/// Each form evaluates every option once per call, with the arguments of the function in scope.
#[test]
fn every_form_is_given_every_option() {
    for (form, is_attribute) in
        INLINE.into_iter().map(|form| (form, false)).chain(attributes().into_iter().map(|form| (form, true)))
    {
        let trial = Trial::fitting(2);
        assert_eq!(trial.succeeds(form), [16, 8, 4, 2]);
        assert_eq!(trial.undone.borrow().len(), 3);
        let mut given = trial.given.take();
        given.push("before_retry");
        if is_attribute && !form.0.contains("chunked") {
            // Only chunked data has axes.
            given.push("dim");
        }
        given.sort_unstable();
        assert_eq!(given, Vec::from_iter(options()), "{}", form.0);
    }
}

#[toma::range(initial = 16, cache = NoCache, predict = None)]
fn unpredicted(start: usize, end: usize) {
    assert!(start < end);
}

#[test]
fn none_predicts_nothing() {
    unpredicted(0, 16);
    assert_eq!(report::last().unwrap().predicted, None);
}

/// Values of all options, a body that runs out of memory above a limit, and records of its attempts.
struct Trial<'a> {
    /// `None` for forms that give the cache by its type.
    cache: Option<&'a dyn SizeCache>,
    initial: usize,
    min: usize,
    max: usize,
    multiple_of: usize,
    max_attempts: usize,
    deadline: Duration,
    key: (u32, &'static str),
    name: &'static str,
    device: Memory,
    rank: Member,
    observer: Shrinks,
    ladder: Ladder<'static>,
    predict: &'a dyn Predict,
    dim: isize,
    policy: &'a dyn Policy,
    classify: fn(&Refused) -> Class,
    limit: usize,
    fallback_limit: usize,
    given: RefCell<Vec<&'static str>>,
    attempts: RefCell<Vec<Range<usize>>>,
    undone: RefCell<Vec<Range<usize>>>,
    successes: Arc<AtomicUsize>,
}

/// An error that only `classify` can interpret.
#[derive(Debug, PartialEq)]
struct Refused;

impl Trial<'_> {
    /// Returns a trial in which at most `limit` items fit, with options that change nothing.
    fn fitting(limit: usize) -> Self {
        Self {
            cache: Some(&NoCache),
            initial: 16,
            min: 1,
            max: 1000,
            multiple_of: 1,
            max_attempts: 1000,
            deadline: Duration::from_secs(3600),
            key: (0, ""),
            name: "work",
            // Shared by the trials of a test, which learn from each other. Two tests share none, or they would contend.
            device: Memory::named(format!("{:?}", thread::current().id()).leak(), 0, 1 << 30),
            rank: threads(1).remove(0),
            observer: Shrinks::default(),
            ladder: Ladder::default(),
            predict: &Nothing,
            dim: 0,
            policy: &Halve,
            classify: |_| Class::OutOfMemory,
            limit,
            fallback_limit: limit,
            given: RefCell::default(),
            attempts: RefCell::default(),
            undone: RefCell::default(),
            successes: Arc::default(),
        }
    }

    /// Returns the sizes that are tried in this form, in order and without repetitions, so that one batch and many
    /// pieces compare as equal.
    fn succeeds(&self, form: Form) -> Vec<usize> {
        assert_eq!((form.1)(self), Ok(()));
        self.sizes()
    }

    fn fails(&self, form: Form) -> Vec<usize> {
        assert_eq!((form.1)(self), Err(Refused));
        self.sizes()
    }

    fn sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.attempts.borrow().iter().map(Range::len).collect();
        sizes.dedup();
        sizes
    }

    /// Returns the value of an option, and records that the option was given.
    fn give<V>(&self, option: &'static str, value: V) -> V {
        self.given.borrow_mut().push(option);
        value
    }

    /// Returns a size in the integer type of the function, and records that the option was given.
    fn give_size<S: TryFrom<usize, Error: Debug>>(&self, option: &'static str, size: usize) -> S {
        self.give(option, S::try_from(size).unwrap())
    }

    /// Runs the body.
    fn attempt(&self, items: Range<usize>) -> Result<(), Refused> {
        self.attempts.borrow_mut().push(items.clone());
        if items.len() > if falls_back() { self.fallback_limit } else { self.limit } {
            return Err(Refused);
        }
        if !is_dry() {
            let successes = Arc::clone(&self.successes);
            when_agreed(move || _ = successes.fetch_add(1, Relaxed));
        }
        Ok(())
    }

    /// Returns the number of attempts that did not run out of memory, not counting dry runs.
    fn successes(&self) -> usize {
        self.successes.load(Relaxed)
    }

    fn undo(&self, items: Range<usize>) {
        self.undone.borrow_mut().push(items);
    }
}

/// Records every shrink.
#[derive(Clone, Default)]
struct Shrinks(Arc<Mutex<Vec<(usize, usize)>>>);

impl Observer for Shrinks {
    fn observe(&self, event: &Event<'_>) {
        if let EventKind::Answered { size, answer: Answer::Shrink(to) } = event.kind {
            self.0.lock().unwrap().push((size, to));
        }
    }
}

#[derive(Debug)]
struct Nothing;

impl Predict for Nothing {
    fn predict(&self, _: Option<usize>, _: u64) -> Option<PredictedSize> {
        None
    }
}

/// Predicts that this many items fit.
#[derive(Debug)]
struct Fits(usize);

impl Predict for Fits {
    fn predict(&self, _: Option<usize>, _: u64) -> Option<PredictedSize> {
        Some(PredictedSize { size: self.0, needs_bytes: 1 })
    }
}

/// Runs the body at two sizes, of which the larger fails, and predicts that 5 items fit.
#[derive(Debug, Default)]
struct RunsDry(AtomicUsize);

impl Predict for RunsDry {
    fn predict(&self, _: Option<usize>, _: u64) -> Option<PredictedSize> {
        panic!("the body is lent")
    }

    fn predict_dry(&self, call: &mut DryCall<'_>) -> Option<PredictedSize> {
        let sizes = call.sizes(8).filter(|_| call.can_run())?;
        assert_eq!((sizes, call.size_at(100)), ([4, 8], 16));
        for size in sizes {
            let failures = run_dry(|| {
                let failures = [(); 2].map(|()| call.run(size).is_err());
                call.take_back();
                failures
            });
            self.0.fetch_add(2, Relaxed);
            assert_eq!(failures.unwrap(), [size > 5; 2]);
        }
        Some(PredictedSize { size: 5, needs_bytes: 1 })
    }
}

thread_local! {
    static RECEIVED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Recalls size 4 for every call site, and records the sizes that it is asked to remember.
#[derive(Debug)]
struct StartsAt4;

impl SizeCache for StartsAt4 {
    fn shared() -> &'static Self {
        &Self
    }

    fn recall(&self, _: &Place<'_>) -> Option<Remembered> {
        Some(Remembered::new(4))
    }

    fn remember(&self, _: &Place<'_>, learned: Remembered) {
        RECEIVED.with_borrow_mut(|received| received.push(learned.settled));
    }
}
