//! Random steps, which can be recorded at any size and in any number of pieces.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use toma_trace::{Label, Place, Recorder, ScopeKind, StorageId, Trace};

use crate::{MAIN, gpu};

/// The bytes of a block at every size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes {
    pub(crate) fixed: u64,
    pub(crate) per_item: u64,
}

impl Bytes {
    fn at(self, size: u64) -> u64 {
        self.fixed + self.per_item * size
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// An operator that makes a block and takes scratch for itself.
    Call(Place, Bytes, Bytes),
    /// A block that is made outside of all operators.
    Make(Place, Bytes),
    /// Frees a block, and makes another one of the same storage, as an eviction and a fetch do.
    Fetch(Index, Place, Bytes),
    Free(Index),
    /// Frees a block that existed before the step.
    FreeExisting(Index),
}

/// A step: the acts of its first piece, and those of each further one. A piece frees only its own blocks.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    existing: Vec<(Place, u64)>,
    first: Vec<Act>,
    further: Vec<Act>,
}

pub(crate) fn programs() -> impl Strategy<Value = Program> {
    let existing = vec((place(), 0..200_u64), 0..3);
    let program = (existing, vec(act(true), 0..12), vec(act(false), 0..12));
    program.prop_map(|(existing, first, further)| Program { existing, first, further })
}

fn place() -> impl Strategy<Value = Place> {
    select(vec![Place::HOST, gpu()])
}

fn bytes() -> impl Strategy<Value = Bytes> {
    (select(vec![0, 1, 7, 300]), 0..9_u64).prop_map(|(fixed, per_item)| Bytes { fixed, per_item })
}

fn act(frees_existing: bool) -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (place(), bytes(), bytes()).prop_map(|(place, made, scratch)| Act::Call(place, made, scratch)),
        2 => (place(), bytes()).prop_map(|(place, bytes)| Act::Make(place, bytes)),
        1 => (any::<Index>(), place(), bytes()).prop_map(|(at, place, bytes)| Act::Fetch(at, place, bytes)),
        3 => any::<Index>().prop_map(Act::Free),
        u32::from(frees_existing) => any::<Index>().prop_map(Act::FreeExisting),
    ]
}

impl Program {
    /// Returns the trace of `pieces` pieces of a size, whose values are held.
    pub(crate) fn record(&self, size: u64, pieces: u64) -> Trace {
        self.record_each((0..pieces).map(|_| size))
    }

    /// Returns the trace of pieces of these sizes, one after the other.
    fn record_each(&self, sizes: impl Iterator<Item = u64>) -> Trace {
        let mut recorder = Recorder::new();
        let there = |(place, bytes): &(Place, u64)| recorder.existing(place, *bytes).unwrap();
        let mut existing: Vec<_> = self.existing.iter().map(there).collect();
        for (piece, size) in sizes.enumerate() {
            let scope = recorder.begin_scope(MAIN, Label::new(ScopeKind::Attempt, "piece"));
            let mut living = Vec::new();
            for act in if piece == 0 { &self.first } else { &self.further } {
                act.play(&mut recorder, size, &mut living, &mut existing);
            }
            recorder.end_scope(scope).unwrap();
        }
        recorder.finish()
    }

    /// Bytes of the blocks that existed before.
    pub(crate) fn existing(&self, place: &Place) -> impl Iterator<Item = u64> {
        self.existing.iter().filter(move |(at, _)| at == place).map(|(_, bytes)| *bytes)
    }

    /// Returns the same step, as it is recorded by shapes alone.
    pub(crate) fn by_shapes(&self) -> Self {
        let mut step = self.clone();
        for act in step.first.iter_mut().chain(&mut step.further) {
            if let Act::Call(_, _, scratch) = act {
                *scratch = Bytes { fixed: 0, per_item: 0 };
            }
        }
        step
    }

    /// Returns the peak bytes beyond those before, from a trace of exactly these pieces.
    pub(crate) fn needs(&self, place: &Place, size: u64, pieces: u64) -> u64 {
        self.needs_of(place, (0..pieces).map(|_| size))
    }

    /// Returns the peak bytes beyond those before, for pieces of these sizes.
    pub(crate) fn needs_of(&self, place: &Place, sizes: impl Iterator<Item = u64>) -> u64 {
        let live = self.record_each(sizes).live(place);
        live.peak().bytes - live.before()
    }
}

impl Act {
    fn play(
        &self,
        recorder: &mut Recorder,
        size: u64,
        living: &mut Vec<StorageId>,
        existing: &mut Vec<StorageId>,
    ) {
        match self {
            Self::Call(place, made, scratch) => {
                let operator = recorder.begin_operator(MAIN, "aten::mm");
                // Kernels often take no scratch at small sizes, and then none is recorded.
                let scratch = Some(scratch.at(size)).filter(|bytes| *bytes > 0);
                let scratch = scratch.map(|bytes| recorder.birth(MAIN, place, bytes).unwrap());
                living.push(recorder.birth(MAIN, place, made.at(size)).unwrap());
                if let Some(scratch) = scratch {
                    recorder.death(MAIN, scratch).unwrap();
                }
                recorder.end_operator(operator).unwrap();
            }
            Self::Make(place, bytes) => living.push(recorder.birth(MAIN, place, bytes.at(size)).unwrap()),
            Self::Fetch(index, place, bytes) if !living.is_empty() => {
                let storage = *index.get(living);
                recorder.death(MAIN, storage).unwrap();
                recorder.rebirth(MAIN, storage, place, bytes.at(size)).unwrap();
            }
            Self::Free(index) if !living.is_empty() => {
                recorder.death(MAIN, living.remove(index.index(living.len()))).unwrap();
            }
            Self::FreeExisting(index) if !existing.is_empty() => {
                recorder.death(MAIN, existing.remove(index.index(existing.len()))).unwrap();
            }
            Self::Fetch(..) | Self::Free(_) | Self::FreeExisting(_) => {}
        }
    }
}
