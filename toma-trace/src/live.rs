//! Which bytes live when, and what holds them.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::place::Place;
use crate::tables::{Block, StorageId, Tick, Trace};

/// The living bytes of one place over the ticks of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// Each tick at which the bytes changed, and what they are since. The first is the start.
    steps: Vec<(Tick, u64)>,
}

/// The most bytes that ever lived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peak {
    /// The bytes.
    pub bytes: u64,
    /// The first tick at which they lived: [`Tick::START`] if they did before the trace.
    pub tick: Tick,
}

/// A storage and the bytes of its living block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The storage.
    pub storage: StorageId,
    /// The bytes of its block. While a storage grows it holds two, and is listed twice.
    pub bytes: u64,
}

impl Trace {
    /// Every place in which there was a block.
    #[must_use]
    pub fn places(&self) -> BTreeSet<&Place> {
        self.blocks().map(|(_, block)| &block.place).collect()
    }

    /// The living bytes of a place, at every tick.
    #[must_use]
    pub fn live(&self, place: &Place) -> Live {
        Live::of(self.blocks_in(place).map(|(_, block)| block))
    }

    /// The same of what was born in the trace alone: what was there before is no part of it, and makes no room when it
    /// is freed.
    #[must_use]
    pub fn live_born(&self, place: &Place) -> Live {
        Live::of(self.blocks_in(place).map(|(_, block)| block).filter(|block| block.birth.is_some()))
    }

    /// What holds memory of a place once the event of a tick has happened, the largest first.
    #[must_use]
    pub fn holders(&self, place: &Place, at: Tick) -> Vec<Holder> {
        let alive = self.blocks_in(place).filter(|(_, block)| block.is_alive(at));
        let mut holders: Vec<_> =
            alive.map(|(storage, block)| Holder { storage, bytes: block.bytes }).collect();
        holders.sort_by_key(|holder| Reverse(holder.bytes));
        holders
    }

    fn blocks_in(&self, place: &Place) -> impl Iterator<Item = (StorageId, &Block)> {
        self.blocks().filter(move |(_, block)| block.place == *place)
    }
}

impl Live {
    fn of<'t>(blocks: impl Iterator<Item = &'t Block>) -> Self {
        let mut changes: Vec<_> = blocks.flat_map(changes).collect();
        changes.sort_unstable_by_key(|(tick, _)| *tick);
        let mut steps = vec![(Tick::START, 0)];
        for (tick, change) in changes {
            let (last, bytes) = steps[steps.len() - 1];
            let bytes = match change {
                Change::Born(more) => bytes + more,
                Change::Died(less) => bytes - less,
            };
            if tick == last {
                steps.pop();
            }
            steps.push((tick, bytes));
        }
        Self { steps }
    }

    /// The bytes once the event of a tick has happened.
    #[must_use]
    pub fn at(&self, tick: Tick) -> u64 {
        let later = self.steps.partition_point(|(step, _)| *step <= tick);
        self.steps[later - 1].1
    }

    /// The bytes before the first event.
    #[must_use]
    pub fn before(&self) -> u64 {
        self.at(Tick::START)
    }

    /// The bytes after the last event.
    #[must_use]
    pub fn after(&self) -> u64 {
        self.steps[self.steps.len() - 1].1
    }

    /// The most bytes at any tick, before the trace included.
    #[must_use]
    pub fn peak(&self) -> Peak {
        let first_highest = self.steps.iter().rev().max_by_key(|(_, bytes)| *bytes);
        let (tick, bytes) = *first_highest.unwrap_or(&self.steps[0]);
        Peak { bytes, tick }
    }

    /// Each tick at which the bytes changed, and the bytes since then; the first is [`Tick::START`].
    #[must_use]
    pub fn steps(&self) -> &[(Tick, u64)] {
        &self.steps
    }
}

enum Change {
    Born(u64),
    Died(u64),
}

fn changes(block: &Block) -> impl Iterator<Item = (Tick, Change)> + use<> {
    let birth = block.birth.map_or(Tick::START, |birth| birth.tick);
    let death = block.death.map(|death| (death.tick, Change::Died(block.bytes)));
    [(birth, Change::Born(block.bytes))].into_iter().chain(death)
}
