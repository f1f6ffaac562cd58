//! Work within a budget, with plans that need fewer and fewer bytes.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use toma::classify::OutOfMemory;
use toma::leaner::{self, Lean};

use crate::kit::OUT_OF_MEMORY;

/// Work whose items need a number of bytes at each plan, and which offers the next plan.
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

    /// Makes an attempt of this size.
    pub(crate) fn run(self: &Arc<Self>, size: usize) -> Result<usize, OutOfMemory> {
        leaner::offer(Arc::<Self>::clone(self));
        self.attempts.lock().unwrap().push((size, self.plan()));
        let needs = size * self.bytes[self.plan()];
        if needs > self.room.load(SeqCst) { Err(OutOfMemory::new(Some(needs as u64))) } else { Ok(size) }
    }

    /// Makes an attempt that panics when memory runs out.
    pub(crate) fn must_run(self: &Arc<Self>, size: usize) -> usize {
        self.run(size).unwrap_or_else(|_| panic!("{OUT_OF_MEMORY}"))
    }

    /// Returns size and plan of each attempt so far.
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

/// A plan with a set answer, which records its place in the order in which plans were asked.
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
