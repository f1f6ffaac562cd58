//! The stage on which a script is played: the body of every form, its errors, and its device. All events are recorded
//! in order.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io;
use std::panic::panic_any;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use toma::classify::{Class, Failure, OutOfMemory};
use toma::memory::{MemorySource, Reading};

use crate::rules::script::{Manner, Script};
use crate::rules::twin::Fate;

/// A recorded event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// An attempt at these items began.
    Attempt(usize, usize),
    /// The failure with this number was dropped.
    Dropped(u64),
    /// `before_retry` ran for these items.
    Undone(usize, usize),
    /// The device released its cached memory.
    Released,
    /// The offer of an attempt was asked for a leaner plan.
    Leaned,
    /// A hook was asked to release memory.
    Asked,
    /// The device's memory was read.
    Read,
}

/// A log that failures can share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<Note>>>);

impl Notes {
    pub(crate) fn write(&self, note: Note) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(note);
    }

    pub(crate) fn take(&self) -> Vec<Note> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A failure with a number of its own, which identifies it wherever it comes out.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) id: u64,
    pub(crate) class: Class,
    requested: Option<u64>,
    notes: Notes,
}

impl Fault {
    /// Returns the argument of the option `classify`.
    pub(crate) fn failure(&self) -> Failure {
        Failure::new(self.class, "scripted").requesting(self.requested)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fault {}", self.id)
    }
}

impl Error for Fault {}

impl Drop for Fault {
    fn drop(&mut self) {
        self.notes.write(Note::Dropped(self.id));
    }
}

/// Returns the number of the failure in the payload of a panic.
pub(crate) fn id_in(payload: &(dyn Any + Send)) -> Option<u64> {
    if let Some(fault) = payload.downcast_ref::<Fault>() {
        return Some(fault.id);
    }
    if let Some(boxed) = payload.downcast_ref::<Box<dyn Error + Send + Sync>>() {
        return boxed.downcast_ref::<Fault>().map(|fault| fault.id);
    }
    if let Some(oom) = payload.downcast_ref::<OutOfMemory>() {
        return oom.requested_bytes();
    }
    let (_, id) = payload.downcast_ref::<String>()?.rsplit_once("fault ")?;
    id.parse().ok()
}

/// The body and the device of one call.
#[derive(Debug)]
pub(crate) struct Stage {
    name: String,
    script: Script,
    notes: Notes,
    /// Numbers of the failures of the attempts so far; 0 for a success.
    ids: Mutex<Vec<u64>>,
}

/// More attempts than any script of the tests allows.
const ENDLESS: usize = 20_000;

impl Stage {
    pub(crate) fn new(script: &Script, notes: &Notes) -> Self {
        // Tests run side by side, and no two of them share a device.
        let name = format!("stage {:?}", thread::current().id());
        Self { name, script: script.clone(), notes: notes.clone(), ids: Mutex::default() }
    }

    /// Returns the stage with a device of its own that no call has used.
    pub(crate) fn untouched(self) -> Self {
        static STAGES: AtomicUsize = AtomicUsize::new(0);
        Self { name: format!("stage {}", STAGES.fetch_add(1, Ordering::Relaxed)), ..self }
    }

    /// Runs one attempt, which ends as the script says. Returns its number if it succeeds.
    pub(crate) fn act(&self, start: usize, end: usize) -> Result<usize, Fault> {
        let fate = self.script.fate(self.attempts(), start, end);
        self.end(fate, start, end)
    }

    /// Runs one attempt that ends with `fate`.
    pub(crate) fn end(&self, fate: Fate, start: usize, end: usize) -> Result<usize, Fault> {
        self.notes.write(Note::Attempt(start, end));
        crate::rules::ladder::meet_others();
        let number = self.attempts();
        assert!(number < ENDLESS, "this call does not end");
        let id = if fate == Fate::Success { 0 } else { next_id() };
        self.lock().push(id);
        match class(fate) {
            None => Ok(number),
            Some(class) => self.fail(number, id, class),
        }
    }

    fn fail(&self, number: usize, id: u64, class: Class) -> Result<usize, Fault> {
        let fault = || Fault { id, class, requested: self.script.requested, notes: self.notes.clone() };
        match self.script.manner(number).for_class(class) {
            Manner::Error => Err(fault()),
            Manner::PanicWithError => panic_any(fault()),
            Manner::PanicWithBox => panic_any(Box::<dyn Error + Send + Sync>::from(fault())),
            Manner::PanicWithOutOfMemory => panic_any(OutOfMemory::new(Some(id))),
            Manner::PanicWithText => panic!("{}; fault {id}", text(class)),
        }
    }

    pub(crate) fn attempts(&self) -> usize {
        self.lock().len()
    }

    /// Returns the number of the failure of attempt `number`.
    pub(crate) fn id(&self, number: usize) -> u64 {
        self.lock()[number]
    }

    pub(crate) fn undo(&self, start: usize, end: usize) {
        self.notes.write(Note::Undone(start, end));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemorySource for Stage {
    fn name(&self) -> &str {
        &self.name
    }

    fn read(&self) -> io::Result<Reading> {
        self.notes.write(Note::Read);
        let reading = self.attempts().checked_sub(1).and_then(|last| self.script.reading(last));
        let (free, total) = reading.ok_or_else(|| io::Error::other("not in the script"))?;
        Ok(Reading::new(free, total))
    }

    fn release_cached_memory(&self) {
        self.notes.write(Note::Released);
    }

    fn staleness(&self) -> Duration {
        Duration::ZERO
    }
}

impl Manner {
    /// Chooses a payload that can express the class. A registered type loses its text when it is silenced and then goes
    /// through after all, as transient failures do.
    fn for_class(self, class: Class) -> Self {
        match (self, class) {
            (Self::PanicWithOutOfMemory, Class::OutOfMemory) => self,
            (Self::PanicWithOutOfMemory, _) => Self::PanicWithText,
            (Self::PanicWithError, Class::Transient) => Self::PanicWithBox,
            _ => self,
        }
    }
}

fn next_id() -> u64 {
    static IDS: AtomicU64 = AtomicU64::new(1);
    IDS.fetch_add(1, Ordering::Relaxed)
}

fn class(fate: Fate) -> Option<Class> {
    match fate {
        Fate::Success => None,
        Fate::OutOfMemory => Some(Class::OutOfMemory),
        Fate::Transient => Some(Class::Transient),
        Fate::Poisoned => Some(Class::Poisoned),
        Fate::Other => Some(Class::Other),
    }
}

fn text(class: Class) -> &'static str {
    match class {
        Class::OutOfMemory => "CUDA out of memory. Tried to allocate 2.00 GiB",
        Class::Transient => "CUBLAS_STATUS_INTERNAL_ERROR",
        Class::Poisoned => "CUDA error: an illegal memory access was encountered",
        _ => "size mismatch",
    }
}
