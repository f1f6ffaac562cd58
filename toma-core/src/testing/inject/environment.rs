//! Injection into all of a program, requested by `TOMA_INJECT`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::{env, thread};

use super::Verdict;
use super::generator::Generator;
use crate::text::print;

const VARIABLE: &str = "TOMA_INJECT";

/// Number of live injections of all threads, plus one as long as the environment may ask for injection.
pub(super) static REASONS: AtomicUsize = AtomicUsize::new(1);

/// A valid value of the variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Settings {
    probability: f64,
    seed: u64,
}

thread_local! {
    /// Needs no destructor, so that it is there as long as the thread is.
    static STREAM: Cell<Option<Generator>> = const { Cell::new(None) };
}

/// Returns the settings from the environment, read once; `None` if it asks for no injection.
///
/// # Panics
/// When the value is malformed, each time.
pub(super) fn settings() -> Option<&'static Settings> {
    static SETTINGS: OnceLock<Option<Settings>> = OnceLock::new();
    let read = || {
        let value = env::var_os(VARIABLE).unwrap_or_default();
        let settings = Settings::parse(&value.to_string_lossy());
        match &settings {
            Some(settings) => settings.announce(),
            None => drop(REASONS.fetch_sub(1, Ordering::Relaxed)),
        }
        settings
    };
    SETTINGS.get_or_init(read).as_ref()
}

impl Settings {
    /// # Panics
    /// When the value is malformed.
    pub(super) fn parse(value: &str) -> Option<Self> {
        if value.is_empty() {
            return None;
        }
        let (probability, seed) = match value.split_once(',') {
            Some((probability, seed)) => (probability, seed.trim().parse().ok()),
            None => (value, Some(RandomState::new().hash_one(VARIABLE))),
        };
        let probability = probability.trim().parse().ok().filter(|value| (0.0..=1.0).contains(value));
        match (probability, seed) {
            (Some(probability), Some(seed)) => Some(Self { probability, seed }),
            _ => panic!("{VARIABLE}={value}: must be a probability from 0 to 1, or one and a seed: `0.2,42`"),
        }
    }

    /// Printed past the capture of the test harness, which shows no output of tests that succeed.
    fn announce(self) {
        let Self { probability, seed } = self;
        print(&format!("toma: injecting out of memory: {VARIABLE}={probability},{seed}"));
    }

    /// The next verdict of this thread.
    pub(super) fn verdict(self) -> Verdict {
        let mut stream = STREAM.get().unwrap_or_else(|| self.stream_of_this_thread());
        let verdict = stream.verdict(self.probability);
        STREAM.set(Some(stream));
        verdict
    }

    fn stream_of_this_thread(self) -> Generator {
        static THREADS: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());
        let thread = thread::current();
        let name = thread.name().unwrap_or_default();
        let mut threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
        let count = threads.entry(name.to_owned()).or_default();
        *count += 1;
        Generator::derived(self.seed, name, *count)
    }
}
