//! Work in a budget, by plans that need fewer bytes each, and what panics print.

use std::cell::Cell;
use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Once};

use toma::classify::OutOfMemory;
use toma::leaner::{self, Lean};

/// Work whose items need so many bytes at each plan, and which offers the next plan.
#[derive(Debug)]
pub(crate) struct Region {
    bytes: Vec<usize>,
    pub(crate) room: AtomicUsize,
    plan: AtomicUsize,
    pub(crate) asked: AtomicUsize,
    attempts: Mutex<Vec<(usize, usize)>>,
}

impl Region {
    pub(crate) fn new(bytes: &[usize], room: usize) -> Arc<Self> {
        prepare();
        Arc::new(Self {
            bytes: bytes.to_vec(),
            room: AtomicUsize::new(room),
            plan: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            attempts: Mutex::default(),
        })
    }

    pub(crate) fn plan(&self) -> usize {
        self.plan.load(SeqCst)
    }

    /// An attempt of this size.
    pub(crate) fn run(self: &Arc<Self>, size: usize) -> Result<usize, OutOfMemory> {
        leaner::offer(Arc::<Self>::clone(self));
        self.attempts.lock().unwrap().push((size, self.plan()));
        let needs = size * self.bytes[self.plan()];
        if needs > self.room.load(SeqCst) { Err(OutOfMemory::new(Some(needs as u64))) } else { Ok(size) }
    }

    /// The same for a body that panics when memory runs out.
    pub(crate) fn must_run(self: &Arc<Self>, size: usize) -> usize {
        self.run(size).unwrap_or_else(|_| panic!("{OOM}"))
    }

    /// Size and plan of each attempt so far.
    pub(crate) fn attempts(&self) -> Vec<(usize, usize)> {
        self.attempts.lock().unwrap().clone()
    }
}

impl Lean for Region {
    fn lean(&self) -> bool {
        self.asked.fetch_add(1, SeqCst);
        let has_next = self.plan() + 1 < self.bytes.len();
        self.plan.fetch_add(usize::from(has_next), SeqCst);
        has_next
    }
}

/// Answers what it is told to, and keeps in which order it was asked among others.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) name: char,
    pub(crate) leans: bool,
    pub(crate) order: Arc<Mutex<String>>,
}

impl Lean for Handle {
    fn lean(&self) -> bool {
        self.order.lock().unwrap().push(self.name);
        self.leans
    }
}

pub(crate) const OOM: &str = "CUDA out of memory. Tried to allocate 2.00 GiB";

thread_local! {
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static PRINTED: Cell<usize> = const { Cell::new(0) };
}

/// A hook that counts stands behind the library's. Every test begins here, because a hook set after the library's
/// first call would stand before it.
pub(crate) fn prepare() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if COUNTING.get() {
                PRINTED.set(PRINTED.get() + 1);
            } else {
                previous(info);
            }
        }));
        toma::execute::with::<toma::NoCache>().batch(1, |_| ());
    });
}

/// What `run` returns, and how many panics of this thread would have been printed meanwhile.
pub(crate) fn printed<R>(run: impl FnOnce() -> R) -> (R, usize) {
    let (counting, before) = (COUNTING.replace(true), PRINTED.get());
    let result = run();
    COUNTING.set(counting);
    (result, PRINTED.get() - before)
}
