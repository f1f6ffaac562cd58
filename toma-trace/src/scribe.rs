//! Builds a trace from events as programs report them.

use std::collections::HashMap;

use crate::place::Place;
use crate::record::{Contradiction, Open, Recorder};
use crate::tables::{Label, OperatorId, StorageId, ThreadId, Trace};

/// Makes a [`Trace`] of events without ids: blocks have addresses, and an end belongs to the begin that came last.
///
/// Ends and deaths whose begins were not recorded are left out.
///
/// ```
/// use toma_trace::{Label, Place, ScopeKind, Scribe, ThreadId};
///
/// let (main, mut scribe) = (ThreadId(0), Scribe::new());
/// scribe.enters(main, Label::new(ScopeKind::Function, "step").at("src/net.rs", 1));
/// scribe.line(main, Label::new(ScopeKind::Line, "x.relu()").at("src/net.rs", 2));
/// scribe.operator(main, "aten::relu");
/// scribe.born(main, 0x1000, &Place::HOST, 64)?;
/// scribe.ends(main)?;
/// scribe.leaves(main)?;
/// scribe.died(main, 0x1000, &Place::HOST, 64)?;
/// assert_eq!(scribe.finish().live(&Place::HOST).peak().bytes, 64);
/// # Ok::<(), toma_trace::Contradiction>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Scribe {
    recorder: Recorder,
    open: HashMap<ThreadId, Vec<Begun>>,
    /// Storages of live blocks by address.
    living: HashMap<u64, StorageId>,
}

/// A scope or an operator that has begun on a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    Frame(Open),
    Line(Open),
    Other(Open),
}

impl Begun {
    fn open(self) -> Open {
        let (Self::Frame(open) | Self::Line(open) | Self::Other(open)) = self;
        open
    }
}

type Refusable<T> = Result<T, Contradiction>;

/// Begins and ends.
impl Scribe {
    /// Creates a scribe without events.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the recorder, to add details of known operators and storages.
    pub fn recorder(&mut self) -> &mut Recorder {
        &mut self.recorder
    }

    /// Records that a function is called.
    pub fn enters(&mut self, thread: ThreadId, label: Label) {
        self.begins(thread, label, Begun::Frame);
    }

    /// Makes a line current in the innermost function, in place of the line before. Ignored if there is no function.
    pub fn line(&mut self, thread: ThreadId, label: Label) {
        let open = self.open.entry(thread).or_default();
        match open.last().copied() {
            Some(Begun::Line(before)) => {
                open.pop();
                let ended = self.end_one(before);
                debug_assert!(ended.is_ok(), "{ended:?}: it was the innermost");
            }
            Some(Begun::Frame(_)) => {}
            _ => return,
        }
        self.begins(thread, label, Begun::Line);
    }

    /// Ends the innermost function, with all scopes inside.
    ///
    /// # Errors
    ///
    /// Errors of the recorder.
    pub fn leaves(&mut self, thread: ThreadId) -> Refusable<()> {
        self.end(thread, |begun| matches!(begun, Begun::Frame(_)))
    }

    /// Begins another scope.
    pub fn scope(&mut self, thread: ThreadId, label: Label) {
        self.begins(thread, label, Begun::Other);
    }

    /// Begins an operator.
    pub fn operator(&mut self, thread: ThreadId, name: &str) -> OperatorId {
        let operator = self.recorder.begin_operator(thread, name);
        self.open.entry(thread).or_default().push(Begun::Other(Open::Operator(operator)));
        operator
    }

    /// Returns the operator that is the innermost of a thread.
    #[must_use]
    pub fn innermost(&self, thread: ThreadId) -> Option<OperatorId> {
        match self.open.get(&thread)?.last()?.open() {
            Open::Operator(operator) => Some(operator),
            Open::Scope(_) => None,
        }
    }

    /// Ends the operator or scope that began last and is no function and no line, with all scopes inside.
    ///
    /// # Errors
    ///
    /// Errors of the recorder.
    pub fn ends(&mut self, thread: ThreadId) -> Refusable<()> {
        self.end(thread, |begun| matches!(begun, Begun::Other(_)))
    }

    fn begins(&mut self, thread: ThreadId, label: Label, begun: impl FnOnce(Open) -> Begun) {
        let scope = self.recorder.begin_scope(thread, label);
        self.open.entry(thread).or_default().push(begun(Open::Scope(scope)));
    }

    fn end(&mut self, thread: ThreadId, is_it: impl Fn(&Begun) -> bool) -> Refusable<()> {
        let open = self.open.entry(thread).or_default();
        let Some(at) = open.iter().rposition(is_it) else { return Ok(()) };
        let ended = open.split_off(at);
        ended.into_iter().rev().try_for_each(|begun| self.end_one(begun.open()))
    }

    fn end_one(&mut self, open: Open) -> Refusable<()> {
        match open {
            Open::Operator(operator) => self.recorder.end_operator(operator),
            Open::Scope(scope) => self.recorder.end_scope(scope),
        }
    }
}

/// Memory.
impl Scribe {
    /// Records the birth of a block. A live block at its address was freed unseen.
    ///
    /// # Errors
    ///
    /// Errors of the recorder.
    pub fn born(
        &mut self,
        thread: ThreadId,
        address: u64,
        place: &Place,
        bytes: u64,
    ) -> Refusable<StorageId> {
        if let Some(before) = self.living.remove(&address) {
            self.recorder.death(thread, before)?;
        }
        let storage = self.recorder.birth(thread, place, bytes)?;
        self.living.insert(address, storage);
        Ok(storage)
    }

    /// Records another block of a storage whose block has died, as one that was evicted from its device and fetched.
    ///
    /// # Errors
    ///
    /// Errors of the recorder.
    pub fn returned(
        &mut self,
        thread: ThreadId,
        storage: StorageId,
        (address, place): (u64, &Place),
        bytes: u64,
    ) -> Refusable<()> {
        if let Some(before) = self.living.remove(&address) {
            self.recorder.death(thread, before)?;
        }
        self.recorder.rebirth(thread, storage, place, bytes)?;
        self.living.insert(address, storage);
        Ok(())
    }

    /// Records the death of a block. Returns its storage.
    ///
    /// # Errors
    ///
    /// Errors of the recorder.
    pub fn died(
        &mut self,
        thread: ThreadId,
        address: u64,
        place: &Place,
        bytes: u64,
    ) -> Refusable<StorageId> {
        let storage = self.living(address, place, bytes)?;
        self.recorder.death(thread, storage)?;
        self.living.remove(&address);
        Ok(storage)
    }

    /// Returns the storage of a live block; a block that is not known existed before the trace.
    ///
    /// # Errors
    ///
    /// Errors of the recorder.
    pub fn living(&mut self, address: u64, place: &Place, bytes: u64) -> Refusable<StorageId> {
        if let Some(known) = self.living.get(&address) {
            return Ok(*known);
        }
        let storage = self.recorder.existing(place, bytes)?;
        self.living.insert(address, storage);
        Ok(storage)
    }

    /// True if a block at an address was recorded and has not died.
    #[must_use]
    pub fn knows(&self, address: u64) -> bool {
        self.living.contains_key(&address)
    }

    /// Returns the trace of all events.
    #[must_use]
    pub fn finish(self) -> Trace {
        self.recorder.finish()
    }
}
