//! Builds a trace from events as programs report them.

use std::collections::HashMap;
use std::time::Duration;

use crate::event::{Event, Location, Mark, Memory, Node, Reader};
use crate::record::{Contradiction, Open, Recorder};
use crate::tables::{Label, Operand, OperatorId, ScopeKind, StorageId, ThreadId, Trace};

/// Reads events into a [`Trace`]: blocks get storages by their addresses, and an end belongs to the begin that came
/// last.
///
/// Ends and deaths whose begins were not recorded are left out.
///
/// ```
/// use toma_trace::{Event, Location, Mark, Memory, Place, Reader, ThreadId, TraceBuilder};
///
/// let memory = Memory { address: 0x1000, place: Place::HOST, bytes: 64 };
/// let mut builder = TraceBuilder::new();
/// for event in [
///     Event::Mark(Mark::Enters(Location::new("step", "src/net.rs", 1, "fn step() {"))),
///     Event::Mark(Mark::Line(Location::new("step", "src/net.rs", 2, "x.relu()"))),
///     Event::OperatorBegins { name: "aten::relu", node: None },
///     Event::Born(memory.clone()),
///     Event::Ends { duration: None },
///     Event::Mark(Mark::Leaves),
///     Event::Died(memory),
/// ] {
///     builder.read(ThreadId(0), &event)?;
/// }
/// assert_eq!(builder.finish().live(&Place::HOST).peak().bytes, 64);
/// # Ok::<(), toma_trace::Contradiction>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TraceBuilder {
    recorder: Recorder,
    open: HashMap<ThreadId, Vec<Opened>>,
    /// Storages of live blocks by address.
    live_blocks: HashMap<u64, StorageId>,
}

/// A scope or an operator that has begun on a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opened {
    Frame(Open),
    Line(Open),
    Other(Open),
}

impl Opened {
    fn open(self) -> Open {
        let (Self::Frame(open) | Self::Line(open) | Self::Other(open)) = self;
        open
    }
}

type Refusable<T> = Result<T, Contradiction>;

impl TraceBuilder {
    /// Creates a builder without events.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the storage of the live block at an address, if it is known.
    #[must_use]
    pub fn storage_at(&self, address: u64) -> Option<StorageId> {
        self.live_blocks.get(&address).copied()
    }

    /// Returns the storage of the block at an address. A block that was not seen to be allocated is recorded as older than
    /// the trace.
    ///
    /// # Errors
    ///
    /// If the bytes of all blocks together overflow.
    pub fn storage_of(&mut self, memory: &Memory) -> Refusable<StorageId> {
        if let Some(known) = self.storage_at(memory.address) {
            return Ok(known);
        }
        let storage = self.recorder.existing(&memory.place, memory.bytes)?;
        self.live_blocks.insert(memory.address, storage);
        Ok(storage)
    }

    /// Returns the trace of all events.
    #[must_use]
    pub fn finish(self) -> Trace {
        self.recorder.finish()
    }
}

impl Reader for TraceBuilder {
    fn read(&mut self, thread: ThreadId, event: &Event<'_>) -> Refusable<()> {
        match event {
            Event::OperatorBegins { name, node } => self.operator_begins(thread, name, *node),
            Event::ScopeBegins { kind, name, node } => {
                let label = Label::new(*kind, name);
                self.begins(thread, numbered(label, *node), Opened::Other);
                Ok(())
            }
            Event::Ends { duration } => self.ends(thread, *duration),
            Event::Mark(mark) => self.marked(thread, mark),
            Event::Attribute { name, values } => {
                self.describe(thread, |recorder, operator| recorder.attribute(operator, name, values))
            }
            Event::Number { name, value } => {
                self.describe(thread, |recorder, operator| recorder.number(operator, name, *value))
            }
            Event::Uses { memory: Memory { address: 0, .. }, .. } => Ok(()),
            Event::Uses { access, memory, shape, wants_gradient, written_by_host, identity } => {
                let Some(operator) = self.innermost(thread) else { return Ok(()) };
                let shape: Vec<_> = shape.iter().map(|size| size.unsigned_abs()).collect();
                let operand = Operand::new(self.storage_of(memory)?, *access, &shape);
                let (wants_gradient, written_by_host, identity) =
                    (*wants_gradient, *written_by_host, *identity);
                self.recorder.uses(operator, Operand { wants_gradient, written_by_host, identity, ..operand })
            }
            Event::Born(memory) => {
                self.was_freed(thread, memory.address)?;
                let storage = self.recorder.birth(thread, &memory.place, memory.bytes)?;
                self.live_blocks.insert(memory.address, storage);
                Ok(())
            }
            Event::Fetched(storage, memory) => {
                self.was_freed(thread, memory.address)?;
                self.recorder.rebirth(thread, *storage, &memory.place, memory.bytes)?;
                self.live_blocks.insert(memory.address, *storage);
                Ok(())
            }
            Event::Died(memory) => {
                let storage = self.storage_of(memory)?;
                self.recorder.death(thread, storage)?;
                self.live_blocks.remove(&memory.address);
                Ok(())
            }
        }
    }
}

/// Marks, begins and ends.
impl TraceBuilder {
    fn marked(&mut self, thread: ThreadId, mark: &Mark<Location<'_>>) -> Refusable<()> {
        match mark {
            Mark::Enters(at) => {
                let label = Label::new(ScopeKind::Function, &at.function).at(&at.file, at.number);
                self.begins(thread, label, Opened::Frame);
                Ok(())
            }
            Mark::Line(at) => self.line(thread, line(at)),
            Mark::LeftTo(at) => self.line(thread, line(at).with("resumed", &[])),
            Mark::Leaves => self.end(thread, |begun| matches!(begun, Opened::Frame(_))),
        }
    }

    /// Makes a line current in the innermost function, in place of the line before. Ignored if there is no function.
    fn line(&mut self, thread: ThreadId, label: Label) -> Refusable<()> {
        let open = self.open.entry(thread).or_default();
        match open.last().copied() {
            Some(Opened::Line(before)) => {
                open.pop();
                self.end_one(before)?;
            }
            Some(Opened::Frame(_)) => {}
            _ => return Ok(()),
        }
        self.begins(thread, label, Opened::Line);
        Ok(())
    }

    fn operator_begins(&mut self, thread: ThreadId, name: &str, node: Option<Node>) -> Refusable<()> {
        let operator = self.recorder.begin_operator(thread, name);
        self.open.entry(thread).or_default().push(Opened::Other(Open::Operator(operator)));
        let Some(node) = node else { return Ok(()) };
        self.recorder.attribute(operator, "sequence", &[node.sequence()])
    }

    fn begins(&mut self, thread: ThreadId, label: Label, begun: impl FnOnce(Open) -> Opened) {
        let scope = self.recorder.begin_scope(thread, label);
        self.open.entry(thread).or_default().push(begun(Open::Scope(scope)));
    }

    /// Adds to the innermost operator, if the thread is in one.
    fn describe(
        &mut self,
        thread: ThreadId,
        add: impl FnOnce(&mut Recorder, OperatorId) -> Refusable<()>,
    ) -> Refusable<()> {
        self.innermost(thread).map_or(Ok(()), |operator| add(&mut self.recorder, operator))
    }

    fn innermost(&self, thread: ThreadId) -> Option<OperatorId> {
        match self.open.get(&thread)?.last()?.open() {
            Open::Operator(operator) => Some(operator),
            Open::Scope(_) => None,
        }
    }

    fn ends(&mut self, thread: ThreadId, duration: Option<Duration>) -> Refusable<()> {
        if let Some((operator, duration)) = self.innermost(thread).zip(duration) {
            self.recorder.duration(operator, duration)?;
        }
        self.end(thread, |begun| matches!(begun, Opened::Other(_)))
    }

    fn end(&mut self, thread: ThreadId, is_it: impl Fn(&Opened) -> bool) -> Refusable<()> {
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

    /// Records the death of the block that had this address, because its end was not observed.
    fn was_freed(&mut self, thread: ThreadId, address: u64) -> Refusable<()> {
        let before = self.live_blocks.remove(&address);
        before.map_or(Ok(()), |before| self.recorder.death(thread, before))
    }
}

fn line(at: &Location<'_>) -> Label {
    Label::new(ScopeKind::Line, at.text).at(&at.file, at.number)
}

/// Adds the number that a node shares with the operator whose gradient it computes.
fn numbered(label: Label, node: Option<Node>) -> Label {
    node.into_iter().fold(label, |label, node| label.with("sequence", &[node.sequence()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Place;
    use crate::tables::Access;

    const MAIN: ThreadId = ThreadId(0);

    fn memory(address: u64, bytes: u64) -> Memory {
        Memory { address, place: Place::HOST, bytes }
    }

    fn trace_of(events: &[Event<'_>]) -> Trace {
        let mut builder = TraceBuilder::new();
        for event in events {
            builder.read(MAIN, event).unwrap();
        }
        builder.finish()
    }

    #[test]
    fn an_end_belongs_to_the_last_begin_and_ends_all_scopes_inside() {
        let at = |number| Location::new("step", "src/net.rs", number, "x.relu()");
        let ends = || Event::Ends { duration: Some(Duration::from_nanos(7)) };
        let trace = trace_of(&[
            ends(),
            Event::Mark(Mark::Line(at(1))),
            Event::OperatorBegins { name: "aten::relu", node: Some(Node(1 << Node::THREAD)) },
            Event::Mark(Mark::Enters(at(1))),
            Event::Mark(Mark::Line(at(2))),
            Event::Mark(Mark::LeftTo(at(1))),
            ends(),
            Event::Mark(Mark::Leaves),
        ]);
        let kinds: Vec<_> = trace.scopes().map(|(_, scope)| scope.label.kind).collect();
        assert_eq!(kinds, [ScopeKind::Function, ScopeKind::Line, ScopeKind::Line]);
        let is_resumed = |scope: &crate::Scope| !scope.label.attributes.is_empty();
        let resumed: Vec<_> = trace.scopes().map(|(_, scope)| is_resumed(scope)).collect();
        assert_eq!(resumed, [false, false, true]);
        let (_, operator) = trace.operators().next().unwrap();
        assert!(trace.scopes().all(|(_, scope)| scope.interval.end < operator.interval.end));
        // The operator was not the innermost when it ended, so the duration is not its own.
        assert_eq!((operator.duration, operator.sequence()), (None, Some(-1)));
        assert_eq!(trace.end(), operator.interval.end);
    }

    #[test]
    fn a_block_is_known_by_its_address_until_it_dies() {
        let uses = |address, access| Event::Uses {
            access,
            memory: memory(address, 8),
            shape: &[2],
            wants_gradient: true,
            written_by_host: None,
            identity: 0,
        };
        let trace = trace_of(&[
            Event::OperatorBegins { name: "aten::relu", node: None },
            uses(64, Access::Reads),
            uses(0, Access::Reads),
            Event::Born(memory(128, 8)),
            uses(128, Access::Makes),
            Event::Ends { duration: Some(Duration::from_nanos(7)) },
            uses(128, Access::Reads),
            Event::Born(memory(128, 16)),
            Event::Died(memory(256, 32)),
            Event::Fetched(StorageId(3), memory(64, 32)),
        ]);
        let storages: Vec<_> = trace.uses().iter().map(|used| used.operand.storage.index()).collect();
        assert_eq!(storages, [0, 1]);
        assert_eq!(trace.operators().next().unwrap().1.duration, Some(Duration::from_nanos(7)));
        let ends = |block: &crate::Block| [block.birth.is_some(), block.death.is_some()];
        let blocks: Vec<_> = trace.blocks().map(|(storage, block)| (storage.index(), ends(block))).collect();
        let (older, all, born) = ([false, true], [true, true], [true, false]);
        assert_eq!(blocks, [(0, older), (1, all), (2, born), (3, older), (3, born)]);
    }
}
