//! Converts the events of a recording to a trace.

use std::collections::HashMap;

use super::failure::Living;
use super::names::NameId;
use super::owner::Owner;
use super::packed::{Packed, PackedBlock, lower};
use super::shared::Shared;
use crate::builder::TraceBuilder;
use crate::event::{Event, Location, Memory, Node, Reader as _};
use crate::lines::{LineId, Sources};
use crate::place::Place;
use crate::tables::{ScopeKind, StorageId, ThreadId, Trace};

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
    for position in lost..ring.count() {
        if let Some((thread, packed)) = ring.get(position).map(Packed::read) {
            let _ = replay.read(position, ThreadId(thread.into()), packed);
        }
    }
    for (device, block) in living {
        if !replay.has_seen(shared.number, block) {
            let _ = replay.lives(u8::try_from(device).unwrap_or(u8::MAX), block);
        }
    }
    let Replay { builder, born, older, .. } = replay;
    Some(Replayed { trace: builder.finish(), lost, recording: shared.number, born, older })
}

struct Replay<'a> {
    sources: &'a Sources,
    places: Vec<Place>,
    builder: TraceBuilder,
    born: HashMap<u32, StorageId>,
    older: HashMap<u64, StorageId>,
    /// Birth moments of the storages that threads fetch.
    fetching: HashMap<ThreadId, u32>,
}

impl<'a> Replay<'a> {
    fn new(sources: &'a Sources, places: Vec<Place>) -> Self {
        Self {
            sources,
            places,
            builder: TraceBuilder::new(),
            born: HashMap::new(),
            older: HashMap::new(),
            fetching: HashMap::new(),
        }
    }

    /// Replays an event at its position. Returns `None` if its function, line or device is unknown, or it contradicts
    /// earlier events.
    fn read(&mut self, position: u64, thread: ThreadId, packed: Packed) -> Option<()> {
        let event = match packed {
            Packed::Mark(mark) => Event::Mark(mark.find(|line| self.location(line))?),
            Packed::Operator(name, node) => {
                let node = (node != Node::default()).then_some(node);
                Event::OperatorBegins { name: text(name), node }
            }
            Packed::Node(name, node) => scope(ScopeKind::Node, name, Some(node)),
            Packed::Phase(name) => scope(ScopeKind::Phase, name, None),
            Packed::Attempt(name) => scope(ScopeKind::Attempt, name, None),
            Packed::Ends => Event::Ends { duration: None },
            Packed::Fetches(moment) => {
                self.fetching.insert(thread, moment);
                return Some(());
            }
            Packed::Born(block) => return self.born(lower(position), thread, self.memory(block)?),
            Packed::Died(block) => {
                let memory = self.memory(block)?;
                self.was_older(lower(position), &memory)?;
                Event::Died(memory)
            }
        };
        self.builder.read(thread, &event).ok()
    }

    fn location(&self, line: LineId) -> Option<Location<'a>> {
        let (source, at) = self.sources.get(line)?;
        Some(Location::new(&source.name, &source.file, at.number, &at.text))
    }

    fn memory(&self, block: PackedBlock) -> Option<Memory> {
        let place = self.places.get(usize::from(block.device))?.clone();
        Some(Memory { address: block.address, place, bytes: block.bytes })
    }

    fn born(&mut self, moment: u32, thread: ThreadId, memory: Memory) -> Option<()> {
        let fetching = self.fetching.remove(&thread);
        let address = memory.address;
        if let Some(storage) = fetching.and_then(|moment| self.born.get(&moment).copied())
            && self.builder.read(thread, &Event::Fetched(storage, memory.clone())).is_ok()
        {
            return Some(());
        }
        self.builder.read(thread, &Event::Born(memory)).ok()?;
        self.born.insert(fetching.unwrap_or(moment), self.builder.storage_at(address)?);
        Some(())
    }

    /// Records the storage of a block that dies at a moment, if no event has mentioned the block.
    fn was_older(&mut self, moment: u32, memory: &Memory) -> Option<()> {
        if self.builder.storage_at(memory.address).is_none() {
            let storage = self.builder.storage_of(memory).ok()?;
            self.older.insert(memory.address, storage);
            // The storage may be fetched later.
            self.born.insert(moment, storage);
        }
        Some(())
    }

    /// True if the events contain a block's birth, or its death if it is older. It may have died since it was found.
    fn has_seen(&self, recording: u32, Living { address, owner, .. }: Living) -> bool {
        let was_born = owner.born(recording).is_some() && self.born.contains_key(&owner.moment());
        was_born || self.older.contains_key(&address) || self.builder.storage_at(address).is_some()
    }

    /// Adds a live block that no event mentions.
    fn lives(&mut self, device: u8, Living { address, bytes, .. }: Living) -> Option<()> {
        let memory = self.memory(PackedBlock { device, address, bytes, operator: NameId::NONE })?;
        self.older.insert(address, self.builder.storage_of(&memory).ok()?);
        Some(())
    }
}

fn text(name: NameId) -> &'static str {
    name.text().unwrap_or("an operator")
}

fn scope(kind: ScopeKind, name: NameId, node: Option<Node>) -> Event<'static> {
    Event::ScopeBegins { kind, name: text(name), node }
}
