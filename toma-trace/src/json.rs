//! Traces as JSON, in a format with a version.
//!
//! A text is read by recording its events again. So it passes the recorder's checks, and its rows must equal
//! the rows that the recorder makes of its events.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::record::{Contradiction, Recorder};
use crate::tables::{
    Block, Operator, OperatorId, Scope, ScopeId, Storage, StorageId, Tables, ThreadId, Trace, Use,
};
use crate::tick::Tick;

/// Marker that distinguishes traces from other texts.
const FORMAT: &str = "toma trace";

/// The version of the format. It changes when a reader of the old one would misunderstand the new one.
const VERSION: u64 = 1;

/// Reasons why a text is no trace.
///
/// ```
/// use toma_trace::{Trace, Unreadable};
///
/// assert!(matches!(Trace::from_json("{}"), Err(Unreadable::Foreign)));
/// ```
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what the values are")]
#[non_exhaustive]
pub enum Unreadable {
    /// The text is no JSON, or lacks a field.
    #[error("a trace cannot be read")]
    Malformed(#[from] serde_json::Error),
    /// The text is JSON of another kind.
    #[error("the text is no trace: its `format` is not `{FORMAT}`")]
    Foreign,
    /// The text has another version of the format.
    #[error("the trace has format version {found}, and this program reads {VERSION}")]
    Version { found: u64 },
    /// Two events share a tick, or a tick has none.
    #[error("the clock goes from tick {before} to tick {after}")]
    Clock { before: Tick, after: Tick },
    /// An event contradicts earlier ones.
    #[error("the event of tick {tick} contradicts earlier ones")]
    Contradiction { tick: Tick, source: Contradiction },
    /// A row differs from the one that follows from the events.
    #[error("row {row} of table `{table}` does not follow from the events")]
    Row { table: &'static str, row: usize },
}

/// Read first, so that the rest is read only from texts of this format.
#[derive(Deserialize)]
struct Head {
    format: Option<serde_json::Value>,
    version: Option<u64>,
}

#[derive(Serialize)]
struct Written<'a> {
    format: &'a str,
    version: u64,
    trace: &'a Tables,
}

#[derive(Deserialize)]
struct Read {
    trace: Tables,
}

impl Trace {
    /// Returns the trace as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let written = Written { format: FORMAT, version: VERSION, trace: &self.0 };
        serde_json::to_string(&written).unwrap_or_else(|error| unreachable!("all keys are texts: {error}"))
    }

    /// Reads a trace, and checks it as a [`Recorder`] does.
    ///
    /// # Errors
    ///
    /// If the text is no trace of this version, or contradicts itself.
    pub fn from_json(text: &str) -> Result<Self, Unreadable> {
        let head: Head = serde_json::from_str(text)?;
        if head.format.is_none_or(|format| format != FORMAT) {
            return Err(Unreadable::Foreign);
        }
        match head.version {
            Some(VERSION) => {}
            found => return Err(Unreadable::Version { found: found.unwrap_or(0) }),
        }
        let Read { trace: tables } = serde_json::from_str(text)?;
        let recorded = record(&tables)?;
        match difference(&tables, &recorded.0) {
            Some((table, row)) => Err(Unreadable::Row { table, row }),
            None => Ok(recorded),
        }
    }
}

enum Event<'a> {
    OperatorBegins(&'a Operator),
    OperatorEnds(OperatorId),
    ScopeBegins(&'a Scope),
    ScopeEnds(ScopeId),
    StorageBegins(ThreadId, &'a Block),
    BlockBegins(ThreadId, StorageId, &'a Block),
    BlockEnds(ThreadId, StorageId),
    Uses(&'a Use),
}

fn record(tables: &Tables) -> Result<Trace, Unreadable> {
    let mut recorder = Recorder::new();
    let mut last = Tick::START;
    for (tick, event) in events(tables) {
        let refused = |source| Unreadable::Contradiction { tick, source };
        existing(tables, &mut recorder).map_err(refused)?;
        if tick != last.next() {
            return Err(Unreadable::Clock { before: last, after: tick });
        }
        play(&event, &mut recorder).map_err(refused)?;
        last = recorder.now();
    }
    existing(tables, &mut recorder).map_err(|source| Unreadable::Contradiction { tick: last, source })?;
    Ok(recorder.finish())
}

/// Returns every event of the tables, in the order of their ticks.
fn events(tables: &Tables) -> Vec<(Tick, Event<'_>)> {
    let mut events = Vec::new();
    for (index, operator) in tables.operators.iter().enumerate() {
        events.push((operator.interval.begin, Event::OperatorBegins(operator)));
        events.push((operator.interval.end, Event::OperatorEnds(OperatorId(index))));
    }
    for (index, scope) in tables.scopes.iter().enumerate() {
        events.push((scope.interval.begin, Event::ScopeBegins(scope)));
        events.push((scope.interval.end, Event::ScopeEnds(ScopeId(index))));
    }
    events.extend(tables.uses.iter().map(|used| (used.tick, Event::Uses(used))));
    for (index, storage) in tables.storages.iter().enumerate() {
        of_storage(StorageId(index), storage, &mut events);
    }
    events.sort_by_key(|(tick, _)| *tick);
    events
}

fn of_storage<'a>(id: StorageId, storage: &'a Storage, events: &mut Vec<(Tick, Event<'a>)>) {
    for (number, block) in storage.blocks.iter().enumerate() {
        let begins = |thread| match number {
            0 => Event::StorageBegins(thread, block),
            _ => Event::BlockBegins(thread, id, block),
        };
        events.extend(block.birth.map(|birth| (birth.tick, begins(birth.thread))));
        events.extend(block.death.map(|death| (death.tick, Event::BlockEnds(death.thread, id))));
    }
}

/// Records storages from before the trace, which have no tick, when their rows are next.
fn existing(tables: &Tables, recorder: &mut Recorder) -> Result<(), Contradiction> {
    while let Some(storage) = tables.storages.get(recorder.storages()) {
        match storage.blocks.first() {
            Some(Block { place, bytes, birth: None, .. }) => recorder.existing(place, *bytes)?,
            _ => break,
        };
    }
    Ok(())
}

fn play(event: &Event<'_>, recorder: &mut Recorder) -> Result<(), Contradiction> {
    match event {
        Event::OperatorBegins(operator) => {
            let id = recorder.begin_operator(operator.interval.thread, &operator.name);
            for attribute in &operator.attributes {
                recorder.attribute(id, &attribute.name, &attribute.values)?;
            }
            for number in &operator.numbers {
                recorder.number(id, &number.name, number.value())?;
            }
            operator.duration.map_or(Ok(()), |duration| recorder.duration(id, duration))
        }
        Event::OperatorEnds(id) => recorder.end_operator(*id),
        Event::ScopeBegins(scope) => {
            recorder.begin_scope(scope.interval.thread, scope.label.clone());
            Ok(())
        }
        Event::ScopeEnds(id) => recorder.end_scope(*id),
        Event::StorageBegins(thread, block) => recorder.birth(*thread, &block.place, block.bytes).map(drop),
        Event::BlockBegins(thread, id, block) => recorder.rebirth(*thread, *id, &block.place, block.bytes),
        Event::BlockEnds(thread, id) => recorder.death(*thread, *id),
        Event::Uses(used) => recorder.uses(used.operator, used.operand.clone()),
    }
}

/// Returns the first row that differs, with its table.
fn difference(read: &Tables, recorded: &Tables) -> Option<(&'static str, usize)> {
    let storages = first("storages", &read.storages, &recorded.storages);
    let operators = first("operators", &read.operators, &recorded.operators);
    let uses = first("uses", &read.uses, &recorded.uses);
    storages.or(operators).or(uses).or(first("scopes", &read.scopes, &recorded.scopes))
}

fn first<T: PartialEq>(table: &'static str, read: &[T], recorded: &[T]) -> Option<(&'static str, usize)> {
    let rows = read.len().max(recorded.len());
    (0..rows).find(|row| read.get(*row) != recorded.get(*row)).map(|row| (table, row))
}
