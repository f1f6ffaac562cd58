//! The events of a recording as a trace.

use std::collections::HashMap;

use super::Shared;
use super::failure::Living;
use super::names::NameId;
use super::owner::Owner;
use super::told::{Memory, Node, Told, lower};
use crate::lines::{LineId, Sources};
use crate::place::Place;
use crate::record::{Open, Recorder};
use crate::tables::{Label, ScopeKind, StorageId, ThreadId, Trace};

/// The trace of a recording, and which of its storages a block was.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// What happened.
    pub trace: Trace,
    /// Events from before it, which were too many to be kept.
    pub lost: u64,
    recording: u32,
    /// By the moments of their births.
    born: HashMap<u32, StorageId>,
    /// What is older, by address.
    older: HashMap<u64, StorageId>,
}

impl Replayed {
    /// The storage of a block, if the trace has it.
    #[must_use]
    pub fn storage(&self, address: u64, owner: Owner) -> Option<StorageId> {
        match owner.born(self.recording) {
            Some(_) => self.born.get(&owner.moment()).copied(),
            None => self.older.get(&address).copied(),
        }
    }
}

/// What is alive now belongs to the trace too, although no event tells of it: it is older.
pub(super) fn replay(shared: &Shared, living: impl IntoIterator<Item = (u32, Living)>) -> Option<Replayed> {
    let ring = shared.ring.as_ref()?;
    let known = shared.known();
    let mut replay =
        Replay::new(&known.sources, shared.rows.devices().map(|(_, place)| place.clone()).collect());
    let lost = ring.oldest();
    for place in lost..ring.count() {
        if let Some((thread, told)) = ring.get(place).map(Told::read) {
            replay.tell(place, ThreadId(thread.into()), told);
        }
    }
    for (device, block) in living {
        replay.lives(shared.number, u8::try_from(device).unwrap_or(u8::MAX), block);
    }
    let Replay { recorder, born, older, .. } = replay;
    Some(Replayed { trace: recorder.finish(), lost, recording: shared.number, born, older })
}

struct Replay<'a> {
    sources: &'a Sources,
    places: Vec<Place>,
    recorder: Recorder,
    open: HashMap<ThreadId, Vec<Begun>>,
    /// By address.
    alive: HashMap<u64, StorageId>,
    born: HashMap<u32, StorageId>,
    older: HashMap<u64, StorageId>,
}

/// What has begun on a thread.
#[derive(Clone, Copy, PartialEq, Eq)]
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

impl<'a> Replay<'a> {
    fn new(sources: &'a Sources, places: Vec<Place>) -> Self {
        let (alive, born, older) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { sources, places, recorder: Recorder::new(), open: HashMap::new(), alive, born, older }
    }

    fn tell(&mut self, place: u64, thread: ThreadId, told: Told) {
        match told {
            Told::Enters(line) => self.enters(thread, line),
            Told::Mark(line) => self.line(thread, line, |label| label),
            Told::LeftTo(line) => self.line(thread, line, |label| label.with("resumed", &[])),
            Told::Leaves => self.end(thread, |begun| matches!(begun, Begun::Frame(_))),
            Told::Operator(name, node) => self.operator(thread, name, node),
            Told::Node(name, node) => {
                let label = Label::new(ScopeKind::Node, text(name));
                self.scope(thread, label.with("sequence", &[sequence(node)]), Begun::Other);
            }
            Told::Phase(name) => self.scope(thread, Label::new(ScopeKind::Phase, text(name)), Begun::Other),
            Told::Attempt(name) => {
                self.scope(thread, Label::new(ScopeKind::Attempt, text(name)), Begun::Other);
            }
            Told::Ends => self.end(thread, |begun| matches!(begun, Begun::Other(_))),
            Told::Born(memory) => self.born(place, thread, memory),
            Told::Died(memory) => self.died(thread, memory),
        }
    }

    fn operator(&mut self, thread: ThreadId, name: NameId, node: Node) {
        let operator = self.recorder.begin_operator(thread, text(name));
        if node != Node::default() {
            // It is the operator that has just begun.
            let _ = self.recorder.attribute(operator, "sequence", &[sequence(node)]);
        }
        self.begun(thread, Begun::Other(Open::Operator(operator)));
    }

    fn enters(&mut self, thread: ThreadId, line: LineId) {
        let Some((source, at)) = self.sources.get(line) else { return };
        let label = Label::new(ScopeKind::Function, &source.name).at(&source.file, at.number);
        self.scope(thread, label, Begun::Frame);
    }

    /// A line comes into force in the innermost frame, in the place of the one before.
    fn line(&mut self, thread: ThreadId, line: LineId, more: impl FnOnce(Label) -> Label) {
        let Some((source, at)) = self.sources.get(line) else { return };
        let open = self.open.entry(thread).or_default();
        if let Some(Begun::Line(before)) = open.last().copied() {
            open.pop();
            self.ends(before);
        }
        let label = Label::new(ScopeKind::Line, &at.text).at(&source.file, at.number);
        self.scope(thread, more(label), Begun::Line);
    }

    fn scope(&mut self, thread: ThreadId, label: Label, begun: impl FnOnce(Open) -> Begun) {
        let scope = self.recorder.begin_scope(thread, label);
        self.begun(thread, begun(Open::Scope(scope)));
    }

    fn begun(&mut self, thread: ThreadId, begun: Begun) {
        self.open.entry(thread).or_default().push(begun);
    }

    /// Ends the innermost of a kind with all inside of it. What began before the recording has no begin.
    fn end(&mut self, thread: ThreadId, is_it: impl Fn(&Begun) -> bool) {
        let open = self.open.entry(thread).or_default();
        let Some(at) = open.iter().rposition(is_it) else { return };
        let ended = open.split_off(at);
        ended.into_iter().rev().for_each(|begun| self.ends(begun.open()));
    }

    fn ends(&mut self, open: Open) {
        let ended = match open {
            Open::Operator(operator) => self.recorder.end_operator(operator),
            Open::Scope(scope) => self.recorder.end_scope(scope),
        };
        debug_assert!(ended.is_ok(), "{ended:?}: it was the innermost");
    }

    /// Where there was another block, that one was freed where nothing saw it.
    fn born(&mut self, place: u64, thread: ThreadId, memory: Memory) {
        if self.alive.contains_key(&memory.address) {
            self.died(thread, memory);
        }
        let Some(device) = self.places.get(usize::from(memory.device)) else { return };
        if let Ok(storage) = self.recorder.birth(thread, device, memory.bytes) {
            self.alive.insert(memory.address, storage);
            self.born.insert(lower(place), storage);
        }
    }

    fn died(&mut self, thread: ThreadId, memory: Memory) {
        let storage = match self.alive.remove(&memory.address) {
            Some(storage) => Some(storage),
            None => self.older(memory.device, memory.address, memory.bytes),
        };
        let Some(storage) = storage else { return };
        let died = self.recorder.death(thread, storage);
        debug_assert!(died.is_ok(), "{died:?}: it was alive");
    }

    fn older(&mut self, device: u8, address: u64, bytes: u64) -> Option<StorageId> {
        let storage = self.recorder.existing(self.places.get(usize::from(device))?, bytes).ok()?;
        self.older.insert(address, storage);
        Some(storage)
    }

    fn lives(&mut self, recording: u32, device: u8, block: Living) {
        let is_told = block.owner.is_of(recording) && self.born.contains_key(&block.owner.moment());
        if !is_told && !self.alive.contains_key(&block.address) {
            self.older(device, block.address, block.bytes);
        }
    }
}

fn text(name: NameId) -> &'static str {
    name.text().unwrap_or("an operator")
}

/// The node that adds a gradient to its variable has no number of its own, and so none above 0.
fn sequence(Node(node): Node) -> i64 {
    const NUMBER: u64 = (1 << 40) - 1;
    if node & NUMBER == 0 { -1 } else { i64::try_from(node).unwrap_or(-1) }
}
