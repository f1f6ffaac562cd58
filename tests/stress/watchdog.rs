//! Notices when a thread makes no progress any more.

use std::fmt;
use std::io::{Write as _, stderr};
use std::process::abort;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::world::lock;

/// Longer than any wait that ends by itself, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(90);

/// What a thread did last.
#[derive(Clone, Copy)]
pub(crate) struct Action {
    pub(crate) what: &'static str,
    pub(crate) depth: usize,
    pub(crate) items: (usize, usize),
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, depth, items: (start, end) } = self;
        write!(f, "{what} at {start}..{end}, in {depth} other calls")
    }
}

/// Where a thread says what it does.
#[derive(Debug)]
pub(crate) struct Slot(Mutex<(Instant, Option<Action>)>);

impl Slot {
    pub(crate) fn new() -> Self {
        Self(Mutex::new((Instant::now(), None)))
    }

    pub(crate) fn does(&self, action: Action) {
        *lock(&self.0) = (Instant::now(), Some(action));
    }

    /// The thread has nothing more to do.
    pub(crate) fn rests(&self) {
        *lock(&self.0) = (Instant::now(), None);
    }

    fn is_stuck(&self) -> bool {
        let (since, action) = *lock(&self.0);
        action.is_some() && since.elapsed() > PATIENCE
    }
}

/// Ends the process with a word on each thread when one of them is stuck; until `ends`.
pub(crate) fn watch(seed: u64, slots: &[Slot], ends: &AtomicBool) {
    while !ends.load(Relaxed) {
        thread::sleep(Duration::from_millis(50));
        if slots.iter().any(Slot::is_stuck) {
            // Straight to the stream: what the test harness keeps is lost with the process.
            let _ = writeln!(stderr(), "stress: no progress for {PATIENCE:?}, TOMA_STRESS_SEED={seed}");
            for (thread, slot) in slots.iter().enumerate() {
                let (since, action) = *lock(&slot.0);
                let _ = writeln!(stderr(), "thread {thread}: {action:?}, {:.1?} ago", since.elapsed());
            }
            abort();
        }
    }
}
