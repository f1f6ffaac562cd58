//! The recorder, which is the only way to make a trace.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use thiserror::Error;

use crate::place::Place;
use crate::tables::{
    Attribute, Block, Interval, Label, Moment, Number, Operand, Operator, OperatorId, Scope, ScopeId,
    Storage, StorageId, Tables, ThreadId, Trace, Use,
};
use crate::tick::Tick;

/// Makes a [`Trace`] of events in the order in which they happen.
///
/// Each event gets a tick of its own. An event that contradicts earlier ones is refused, with its values,
/// and changes nothing.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    tables: Tables,
    /// Operators and scopes that have begun and not ended on each thread, innermost last.
    open: BTreeMap<ThreadId, Vec<Open>>,
    /// Bytes of all blocks so far, checked so that no sum of live ones overflows.
    total_bytes: u64,
}

/// An operator or a scope that has a begin and an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// An operator.
    Operator(OperatorId),
    /// A scope.
    Scope(ScopeId),
}

impl fmt::Display for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator(id) => id.fmt(f),
            Self::Scope(id) => id.fmt(f),
        }
    }
}

/// An event that cannot have happened after the events recorded before.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what the values are")]
#[non_exhaustive]
pub enum Contradiction {
    /// The storage is of another trace.
    #[error("{storage} is unknown: {known} are recorded")]
    UnknownStorage { storage: StorageId, known: usize },
    /// The operator or scope is of another trace.
    #[error("{open} is unknown: {known} are recorded")]
    Unknown { open: Open, known: usize },
    /// The storage has no live block.
    #[error("{storage} is dead since tick {death}")]
    Dead { storage: StorageId, death: Tick },
    /// The storage has a live block.
    #[error("{storage} already has a living block of {bytes} bytes")]
    Alive { storage: StorageId, bytes: u64 },
    /// The operator or scope has ended.
    #[error("{open} has ended at tick {end}")]
    Ended { open: Open, end: Tick },
    /// The operator or scope has another inside of it.
    #[error("{open} cannot end before {innermost}, which began inside of it on {thread}")]
    NotInnermost { open: Open, innermost: Open, thread: ThreadId },
    /// The sum of bytes would overflow.
    #[error("a block of {bytes} bytes: all blocks together exceed {} bytes", u64::MAX)]
    TooManyBytes { bytes: u64 },
}

type Refusable<T> = Result<T, Contradiction>;

impl Recorder {
    /// Creates a recorder without events.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that an operator begins on a thread, inside the thread's innermost scope.
    pub fn begin_operator(&mut self, thread: ThreadId, name: &str) -> OperatorId {
        let scope = self.innermost(thread, |open| match open {
            Open::Scope(id) => Some(id),
            Open::Operator(_) => None,
        });
        let id = OperatorId(self.tables.operators.len());
        let interval = self.begin(thread, Open::Operator(id));
        let name = name.to_owned();
        self.tables.operators.push(Operator {
            name,
            interval,
            scope,
            duration: None,
            attributes: Vec::new(),
            numbers: Vec::new(),
        });
        id
    }

    /// Records an argument of an operator that is one integer or several.
    ///
    /// # Errors
    ///
    /// If the operator is unknown.
    pub fn attribute(&mut self, operator: OperatorId, name: &str, values: &[i64]) -> Refusable<()> {
        let attribute = Attribute { name: name.to_owned(), values: values.to_owned() };
        self.operator(operator)?.attributes.push(attribute);
        Ok(())
    }

    /// Records an argument of an operator that is a number, such as the factor of a product.
    ///
    /// # Errors
    ///
    /// If the operator is unknown.
    pub fn number(&mut self, operator: OperatorId, name: &str, value: f64) -> Refusable<()> {
        let number = Number { name: name.to_owned(), bits: value.to_bits() };
        self.operator(operator)?.numbers.push(number);
        Ok(())
    }

    /// Records the run time of an operator; a later call replaces it.
    ///
    /// # Errors
    ///
    /// If the operator is unknown.
    pub fn duration(&mut self, operator: OperatorId, duration: Duration) -> Refusable<()> {
        self.operator(operator)?.duration = Some(duration);
        Ok(())
    }

    /// Records that an operator ends.
    ///
    /// # Errors
    ///
    /// If it is unknown, has ended, or is not the innermost of its thread.
    pub fn end_operator(&mut self, operator: OperatorId) -> Refusable<()> {
        let interval = self.operator(operator)?.interval;
        let end = self.end(interval, Open::Operator(operator))?;
        self.tables.operators[operator.0].interval.end = end;
        Ok(())
    }

    /// Records that a scope begins on a thread, inside the thread's innermost scope.
    pub fn begin_scope(&mut self, thread: ThreadId, label: Label) -> ScopeId {
        let id = ScopeId(self.tables.scopes.len());
        let interval = self.begin(thread, Open::Scope(id));
        self.tables.scopes.push(Scope { label, interval });
        id
    }

    /// Records that a scope ends.
    ///
    /// # Errors
    ///
    /// If it is unknown, has ended, or is not the innermost of its thread.
    pub fn end_scope(&mut self, scope: ScopeId) -> Refusable<()> {
        let interval = self.tables.scopes.get(scope.0).map(|scope| scope.interval);
        let (open, known) = (Open::Scope(scope), self.tables.scopes.len());
        let end = self.end(interval.ok_or(Contradiction::Unknown { open, known })?, open)?;
        self.tables.scopes[scope.0].interval.end = end;
        Ok(())
    }

    /// Records a storage that existed before the trace, with one block.
    ///
    /// This is no event, and has no tick: it may be recorded when the storage is first seen.
    ///
    /// # Errors
    ///
    /// If the bytes of all blocks together overflow.
    pub fn existing(&mut self, place: &Place, bytes: u64) -> Refusable<StorageId> {
        self.add_bytes(bytes)?;
        let block = Block { bytes, place: place.clone(), birth: None, death: None, operator: None };
        Ok(self.add_storage(block))
    }

    /// Records the birth of a storage with its first block, under the innermost operator of the thread.
    ///
    /// # Errors
    ///
    /// If the bytes of all blocks together overflow.
    pub fn birth(&mut self, thread: ThreadId, place: &Place, bytes: u64) -> Refusable<StorageId> {
        let block = self.born(thread, place, bytes)?;
        Ok(self.add_storage(block))
    }

    /// Records another block of a storage whose block is dead.
    ///
    /// # Errors
    ///
    /// If the storage is unknown or has a live block, or the bytes of all blocks together overflow.
    pub fn rebirth(
        &mut self,
        thread: ThreadId,
        storage: StorageId,
        place: &Place,
        bytes: u64,
    ) -> Refusable<()> {
        let last = self.last_block(storage)?;
        if last.death.is_none() {
            return Err(Contradiction::Alive { storage, bytes: last.bytes });
        }
        let block = self.born(thread, place, bytes)?;
        self.tables.storages[storage.0].blocks.push(block);
        Ok(())
    }

    /// Records that the live block of a storage is freed.
    ///
    /// # Errors
    ///
    /// If the storage is unknown or dead.
    pub fn death(&mut self, thread: ThreadId, storage: StorageId) -> Refusable<()> {
        self.living_block(storage)?;
        let moment = self.moment(thread);
        self.last_block(storage)?.death = Some(moment);
        Ok(())
    }

    /// Records that an operator that has not ended uses a live storage.
    ///
    /// Arguments come first, in their order, then results. A written tensor may be recorded as both.
    ///
    /// # Errors
    ///
    /// If the operator is unknown or has ended, or the storage is unknown or dead.
    pub fn uses(&mut self, operator: OperatorId, operand: Operand) -> Refusable<()> {
        let interval = self.operator(operator)?.interval;
        still_open(interval, Open::Operator(operator))?;
        self.living_block(operand.storage)?;
        let tick = self.tick();
        self.tables.uses.push(Use { tick, operator, operand });
        Ok(())
    }

    /// Returns the trace of the recorded events. Operators and scopes that have not ended end now, innermost first.
    #[must_use]
    pub fn finish(mut self) -> Trace {
        for open in std::mem::take(&mut self.open).into_values().flat_map(|open| open.into_iter().rev()) {
            let end = self.tick();
            match open {
                Open::Operator(id) => self.tables.operators[id.0].interval.end = end,
                Open::Scope(id) => self.tables.scopes[id.0].interval.end = end,
            }
        }
        Trace(self.tables)
    }

    /// Returns the tick of the last event.
    pub(crate) fn now(&self) -> Tick {
        self.tables.end
    }

    /// Returns the number of recorded storages.
    pub(crate) fn storages(&self) -> usize {
        self.tables.storages.len()
    }

    fn tick(&mut self) -> Tick {
        self.tables.end = self.tables.end.next();
        self.tables.end
    }

    fn moment(&mut self, thread: ThreadId) -> Moment {
        Moment { tick: self.tick(), thread }
    }

    fn begin(&mut self, thread: ThreadId, open: Open) -> Interval {
        self.open.entry(thread).or_default().push(open);
        let begin = self.tick();
        Interval { begin, end: begin, thread }
    }

    fn end(&mut self, interval: Interval, open: Open) -> Refusable<Tick> {
        still_open(interval, open)?;
        let thread = interval.thread;
        let stack = self.open.entry(thread).or_default();
        match stack.last() {
            Some(innermost) if *innermost != open => {
                Err(Contradiction::NotInnermost { open, innermost: *innermost, thread })
            }
            _ => {
                stack.pop();
                Ok(self.tick())
            }
        }
    }

    fn innermost<T>(&self, thread: ThreadId, pick: impl Fn(Open) -> Option<T>) -> Option<T> {
        self.open.get(&thread)?.iter().rev().find_map(|open| pick(*open))
    }

    fn born(&mut self, thread: ThreadId, place: &Place, bytes: u64) -> Refusable<Block> {
        self.add_bytes(bytes)?;
        let operator = self.innermost(thread, |open| match open {
            Open::Operator(id) => Some(id),
            Open::Scope(_) => None,
        });
        let birth = Some(self.moment(thread));
        Ok(Block { bytes, place: place.clone(), birth, death: None, operator })
    }

    fn add_bytes(&mut self, bytes: u64) -> Refusable<()> {
        let total = self.total_bytes.checked_add(bytes);
        self.total_bytes = total.ok_or(Contradiction::TooManyBytes { bytes })?;
        Ok(())
    }

    fn add_storage(&mut self, block: Block) -> StorageId {
        self.tables.storages.push(Storage { blocks: vec![block] });
        StorageId(self.tables.storages.len() - 1)
    }

    fn operator(&mut self, id: OperatorId) -> Refusable<&mut Operator> {
        let (open, known) = (Open::Operator(id), self.tables.operators.len());
        self.tables.operators.get_mut(id.0).ok_or(Contradiction::Unknown { open, known })
    }

    fn last_block(&mut self, storage: StorageId) -> Refusable<&mut Block> {
        let known = self.tables.storages.len();
        let row = self.tables.storages.get_mut(storage.0);
        let unknown = Contradiction::UnknownStorage { storage, known };
        row.and_then(|row| row.blocks.last_mut()).ok_or(unknown)
    }

    fn living_block(&mut self, storage: StorageId) -> Refusable<&mut Block> {
        let block = self.last_block(storage)?;
        match block.death {
            Some(Moment { tick: death, .. }) => Err(Contradiction::Dead { storage, death }),
            None => Ok(block),
        }
    }
}

/// Checks that an interval has not ended: an open one is empty.
fn still_open(interval: Interval, open: Open) -> Refusable<()> {
    if interval.begin < interval.end {
        return Err(Contradiction::Ended { open, end: interval.end });
    }
    Ok(())
}
