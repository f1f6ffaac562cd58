//! Converts the events of a recording to a trace.

use std::collections::HashMap;

use super::failure::Living;
use super::names::NameId;
use super::owner::Owner;
use super::shared::Shared;
use super::told::{Memory, Node, Told, lower};
use crate::lines::{LineId, Sources};
use crate::place::Place;
use crate::scribe::Scribe;
use crate::tables::{Label, ScopeKind, StorageId, ThreadId, Trace};

/// The trace of a recording, and the storages of its blocks.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The events as a trace.
    pub trace: Trace,
    /// Number of older events that were not kept.
    pub lost: u64,
    recording: u32,
    /// Storages by the moments of their births.
    born: HashMap<u32, StorageId>,
    /// Storages from before the recording, by address.
    older: HashMap<u64, StorageId>,
}

impl Replayed {
    /// Returns the storage of a block, if the trace has it.
    #[must_use]
    pub fn storage(&self, address: u64, owner: Owner) -> Option<StorageId> {
        match owner.born(self.recording) {
            Some(_) => self.born.get(&owner.moment()).copied(),
            None => self.older.get(&address).copied(),
        }
    }
}

/// Builds the trace. Blocks that are alive now belong to it, too, although no event mentions older ones.
pub(super) fn replay(shared: &Shared, living: impl IntoIterator<Item = (u32, Living)>) -> Option<Replayed> {
    let ring = shared.ring.as_ref()?;
    let known = shared.known();
    let mut replay =
        Replay::new(&known.sources, shared.rows.devices().map(|(_, place)| place.clone()).collect());
    let lost = ring.oldest();
    for place in lost..ring.count() {
        if let Some((thread, told)) = ring.get(place).map(Told::read) {
            let _ = replay.tell(place, ThreadId(thread.into()), told);
        }
    }
    for (device, block) in living {
        if !replay.has_told(shared.number, block) {
            let _ = replay.lives(u8::try_from(device).unwrap_or(u8::MAX), block);
        }
    }
    let Replay { scribe, born, older, .. } = replay;
    Some(Replayed { trace: scribe.finish(), lost, recording: shared.number, born, older })
}

struct Replay<'a> {
    sources: &'a Sources,
    places: Vec<Place>,
    scribe: Scribe,
    born: HashMap<u32, StorageId>,
    older: HashMap<u64, StorageId>,
    /// Birth moments of the storages that threads fetch.
    returning: HashMap<ThreadId, u32>,
}

impl<'a> Replay<'a> {
    fn new(sources: &'a Sources, places: Vec<Place>) -> Self {
        Self {
            sources,
            places,
            scribe: Scribe::new(),
            born: HashMap::new(),
            older: HashMap::new(),
            returning: HashMap::new(),
        }
    }

    /// Replays an event. Returns `None` if its function, line or device is unknown.
    fn tell(&mut self, place: u64, thread: ThreadId, told: Told) -> Option<()> {
        match told {
            Told::Enters(line) => self.scribe.enters(thread, self.function(line)?),
            Told::Mark(line) => self.scribe.line(thread, self.line(line)?),
            Told::LeftTo(line) => self.scribe.line(thread, self.line(line)?.with("resumed", &[])),
            Told::Leaves => self.scribe.leaves(thread).ok()?,
            Told::Operator(name, node) => self.operator(thread, name, node),
            Told::Node(name, node) => {
                let label = Label::new(ScopeKind::Node, text(name));
                self.scribe.scope(thread, label.with("sequence", &[sequence(node)]));
            }
            Told::Phase(name) => self.scribe.scope(thread, Label::new(ScopeKind::Phase, text(name))),
            Told::Attempt(name) => self.scribe.scope(thread, Label::new(ScopeKind::Attempt, text(name))),
            Told::Ends => self.scribe.ends(thread).ok()?,
            Told::Born(memory) => self.born(place, thread, memory)?,
            Told::Died(memory) => self.died(place, thread, memory)?,
            Told::Returns(moment) => drop(self.returning.insert(thread, moment)),
        }
        Some(())
    }

    fn operator(&mut self, thread: ThreadId, name: NameId, node: Node) {
        let operator = self.scribe.operator(thread, text(name));
        if node != Node::default() {
            // The operator has just begun.
            let _ = self.scribe.recorder().attribute(operator, "sequence", &[sequence(node)]);
        }
    }

    fn function(&self, line: LineId) -> Option<Label> {
        let (source, at) = self.sources.get(line)?;
        Some(Label::new(ScopeKind::Function, &source.name).at(&source.file, at.number))
    }

    fn line(&self, line: LineId) -> Option<Label> {
        let (source, at) = self.sources.get(line)?;
        Some(Label::new(ScopeKind::Line, &at.text).at(&source.file, at.number))
    }

    fn born(&mut self, place: u64, thread: ThreadId, memory: Memory) -> Option<()> {
        let Memory { device, address, bytes, .. } = memory;
        let on = self.places.get(usize::from(device))?;
        let moment = self.returning.remove(&thread);
        let returns = moment.and_then(|moment| self.born.get(&moment).copied());
        if returns.is_some_and(|storage| self.scribe.returned(thread, storage, (address, on), bytes).is_ok())
        {
            return Some(());
        }
        let storage = self.scribe.born(thread, address, on, bytes).ok()?;
        self.born.insert(moment.unwrap_or(lower(place)), storage);
        Some(())
    }

    fn died(&mut self, place: u64, thread: ThreadId, memory: Memory) -> Option<()> {
        let Memory { device, address, bytes, .. } = memory;
        let is_known = self.scribe.knows(address);
        let storage = self.scribe.died(thread, address, self.places.get(usize::from(device))?, bytes).ok()?;
        if !is_known {
            self.older.insert(address, storage);
            // The storage may be fetched later.
            self.born.insert(lower(place), storage);
        }
        Some(())
    }

    /// True if the events contain a block's birth, or its death if it is older. It may have died since it was found.
    fn has_told(&self, recording: u32, Living { address, owner, .. }: Living) -> bool {
        let was_born = owner.born(recording).is_some() && self.born.contains_key(&owner.moment());
        was_born || self.older.contains_key(&address) || self.scribe.knows(address)
    }

    /// Adds a live block that no event mentions.
    fn lives(&mut self, device: u8, Living { address, bytes, .. }: Living) -> Option<()> {
        let place = self.places.get(usize::from(device))?;
        self.older.insert(address, self.scribe.living(address, place, bytes).ok()?);
        Some(())
    }
}

fn text(name: NameId) -> &'static str {
    name.text().unwrap_or("an operator")
}

/// Returns the number of a node, or -1 for a node that adds a gradient to its variable and has no number of its own.
fn sequence(Node(node): Node) -> i64 {
    const NUMBER: u64 = (1 << 40) - 1;
    if node & NUMBER == 0 { -1 } else { i64::try_from(node).unwrap_or(-1) }
}
