//! Detects threads that no longer make progress.

use std::fmt;
use std::io::{Write as _, stderr};
use std::process::abort;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::world::lock;

/// Longer than any wait that ends by itself, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// Last action of a thread.
#[derive(Clone, Copy)]
pub(crate) struct Action {
    pub(crate) name: &'static str,
    pub(crate) depth: usize,
    pub(crate) items: (usize, usize),
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, depth, items: (start, end) } = self;
        write!(f, "{name} at {start}..{end}, in {depth} other calls")
    }
}

/// Slot in which a thread records its actions.
#[derive(Debug)]
pub(crate) struct Slot(Mutex<(Instant, Option<Action>)>);

impl Slot {
    pub(crate) fn new() -> Self {
        Self(Mutex::new((Instant::now(), None)))
    }

    pub(crate) fn does(&self, action: Action) {
        *lock(&self.0) = (Instant::now(), Some(action));
    }

    /// Records that the thread has nothing more to do.
    pub(crate) fn rests(&self) {
        *lock(&self.0) = (Instant::now(), None);
    }

    fn is_stuck(&self) -> bool {
        let (since, action) = *lock(&self.0);
        action.is_some() && since.elapsed() > PATIENCE
    }
}

/// Ends the process with a line on each thread when one of them is stuck, until `ends` is set.
pub(crate) fn watch(seed: u64, slots: &[Slot], ends: &AtomicBool) {
    while !ends.load(Relaxed) {
        thread::sleep(Duration::from_millis(50));
        if slots.iter().any(Slot::is_stuck) {
            // Written straight to the stream, because output captured by the test harness is lost with the process.
            let _ = writeln!(stderr(), "stress: no progress for {PATIENCE:?}, TOMA_STRESS_SEED={seed}");
            for (thread, slot) in slots.iter().enumerate() {
                let (since, action) = *lock(&slot.0);
                let _ = writeln!(stderr(), "thread {thread}: {action:?}, {:.1?} ago", since.elapsed());
            }
            abort();
        }
    }
}
