//! Injected failures, to test that code can be run again with a smaller size.
//!
//! A body that meets a failure once in a month is tested once in a month. Here a test makes attempts fail at will: by a
//! [script], [by size](above), or at [random]. Each of these returns an [`Injection`]; until it is dropped, it applies
//! to the attempts of this thread. If a thread has several, only the newest applies. An attempt fails only if the loop
//! could try again, so that injection never causes a failure of the whole call that the program could not have had. A
//! call with an injected failure remembers nothing: neither a size cache nor the user's file of sizes learns from it.
//!
//! ```
//! # extern crate toma_core as toma;
//! use toma::testing::inject::{self, Verdict};
//!
//! let injection = inject::script([Verdict::PASS, Verdict::OUT_OF_MEMORY.after_body()]);
//! // ... run the code under test here ...
//! # assert_eq!(injection.failures(), 0);
//! println!("{} of {} attempts failed", injection.failures(), injection.attempts());
//! ```
//!
//! # All of a test suite
//!
//! `TOMA_INJECT=0.2 cargo test` lets each attempt of the program run out of memory with probability 0.2, in all threads
//! without an injection of their own; half of the failures come after the body has run. The first attempt prints the
//! seed that reproduces the failures to standard error: `toma: injecting out of memory: TOMA_INJECT=0.2,42`. Each
//! thread has its own random numbers, made from the seed, the name of the thread (that of the test, under
//! `cargo test`), and a count of the threads before it of the same name. An empty value is no injection; a malformed
//! one panics at the first attempt, because a test run that silently tests less proves nothing.

mod environment;
mod generator;
mod raise;
#[cfg(test)]
mod tests;
mod verdict;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use environment::REASONS;
use generator::Generator;
pub(crate) use raise::ask;
pub(crate) use verdict::Injected;
pub use verdict::Verdict;

/// Until it is dropped, attempts on this thread fail as [`script`], [`above`], or [`random`] specified.
///
/// It stays on its thread:
///
/// ```compile_fail,E0277
/// # extern crate toma_core as toma;
/// let injection = toma::testing::inject::above(64);
/// std::thread::spawn(move || drop(injection));
/// ```
#[must_use = "nothing fails any more when the injection is dropped"]
pub struct Injection {
    rules: Rc<Rules>,
}

struct Rules {
    judge: RefCell<Box<dyn FnMut(usize) -> Verdict>>,
    after_body: Cell<bool>,
    attempts: Cell<usize>,
    failures: Cell<usize>,
}

thread_local! {
    static INJECTIONS: RefCell<Vec<Rc<Rules>>> = const { RefCell::new(Vec::new()) };
}

/// Gives the attempts these verdicts, one each; attempts after the last verdict pass.
///
/// An empty script lets all attempts pass, also if `TOMA_INJECT` is set. Attempts of loops inside the iterator pass.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::testing::inject::{self, Verdict};
/// use toma::{NoCache, execute};
///
/// let injection = inject::script([Verdict::OUT_OF_MEMORY, Verdict::PASS]);
/// assert_eq!(execute::with::<NoCache>().batch(8, |size| size), 4);
/// assert_eq!((injection.attempts(), injection.failures()), (2, 1));
/// ```
pub fn script<V>(verdicts: V) -> Injection
where
    V: IntoIterator<Item = Verdict>,
    V::IntoIter: 'static,
{
    let mut verdicts = verdicts.into_iter().fuse();
    Injection::new(move |_| verdicts.next().unwrap_or(Verdict::PASS))
}

/// Makes attempts with more than `size` items run out of memory.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::testing::inject;
/// use toma::{NoCache, execute};
///
/// let _injection = inject::above(3);
/// assert_eq!(execute::with::<NoCache>().batch(8, |size| size), 2);
/// ```
pub fn above(size: usize) -> Injection {
    Injection::new(move |attempted| if attempted > size { Verdict::OUT_OF_MEMORY } else { Verdict::PASS })
}

/// Makes attempts run out of memory with `probability`, half of them after the body has run.
///
/// The same seed gives the same failures, in every version of this crate.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::testing::inject;
/// use toma::{NoCache, execute};
///
/// let injection = inject::random(42, 0.5);
/// let values = execute::with::<NoCache>().map(0..100, 16, |start, end| end - start);
/// assert_eq!(values.iter().sum::<usize>(), 100); // each item once, whatever failed
/// println!("{} of {} attempts failed", injection.failures(), injection.attempts());
/// ```
///
/// # Panics
/// When `probability` is not between 0 and 1.
pub fn random(seed: u64, probability: f64) -> Injection {
    assert!((0.0..=1.0).contains(&probability), "probability {probability}: must be from 0 to 1");
    let mut generator = Generator::new(seed);
    Injection::new(move |_| generator.verdict(probability))
}

/// True if an attempt may fail artificially; otherwise no attempt need ask for a verdict.
pub(crate) fn active() -> bool {
    REASONS.load(Ordering::Relaxed) != 0
}

/// Returns the failure that the attempt of `size` items is to meet; called once for each attempt that could be tried
/// again.
pub(crate) fn verdict(size: usize) -> Option<Injected> {
    let everywhere = environment::settings();
    // While a thread ends, its injections can no longer be found.
    match INJECTIONS.try_with(|injections| injections.borrow().last().cloned()).ok().flatten() {
        Some(rules) => rules.verdict(size),
        None => everywhere?.verdict(),
    }
    .0
}

impl Injection {
    fn new(judge: impl FnMut(usize) -> Verdict + 'static) -> Self {
        let rules = Rc::new(Rules {
            judge: RefCell::new(Box::new(judge)),
            after_body: Cell::new(false),
            attempts: Cell::new(0),
            failures: Cell::new(0),
        });
        INJECTIONS.with(|injections| injections.borrow_mut().push(Rc::clone(&rules)));
        REASONS.fetch_add(1, Ordering::Relaxed);
        Self { rules }
    }

    /// Makes every failure come after the body has run, to find bodies that cannot run twice.
    pub fn after_body(self) -> Self {
        self.rules.after_body.set(true);
        self
    }

    /// Number of attempts that met this injection so far, without those that could not have been tried again.
    pub fn attempts(&self) -> usize {
        self.rules.attempts.get()
    }

    /// Number of attempts it let fail so far.
    pub fn failures(&self) -> usize {
        self.rules.failures.get()
    }
}

impl Drop for Injection {
    fn drop(&mut self) {
        // Injections may end in any order; while a thread ends the list may be gone before them.
        let _ = INJECTIONS.try_with(|injections| {
            injections.borrow_mut().retain(|rules| !Rc::ptr_eq(rules, &self.rules));
        });
        REASONS.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (attempts, failures) = (self.attempts(), self.failures());
        f.debug_struct("Injection").field("attempts", &attempts).field("failures", &failures).finish()
    }
}

impl Rules {
    fn verdict(&self, size: usize) -> Verdict {
        // Borrowed already: the rule itself makes this attempt.
        let Ok(mut judge) = self.judge.try_borrow_mut() else { return Verdict::PASS };
        self.attempts.set(self.attempts.get() + 1);
        let verdict = judge(size);
        if verdict == Verdict::PASS {
            return verdict;
        }
        self.failures.set(self.failures.get() + 1);
        if self.after_body.get() { verdict.after_body() } else { verdict }
    }
}
