//! What a step needs at other sizes, from traces of it at a few.
//!
//! # Why
//!
//! - **Each block has a line, not the peak.** The peak over sizes is the highest of many lines, so it is
//!   convex, and a line through two small peaks is too low beyond them.
//! - **Lines in integers.** Blocks of real steps lie on them to the byte. Where one does not, its slope is
//!   rounded up.
//! - **Scratch may be missing, other blocks may not.** Kernels choose their scratch by size. A block that
//!   outlives its operator at one size alone shows that the steps did different work.
//! - **The largest trace with the most scratch is the base**, whose order of births and deaths counts. The
//!   largest of all may be one by shapes alone, which knows no scratch.

mod blocks;
mod cuts;
mod fit;
mod head_room;
mod line;
mod matched;
mod pieces;
mod replay;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use toma_trace::{OperatorId, Place, StorageId, Tick, Trace};

use blocks::{Grows, ends, levels, pieces};
use cuts::{Grown, Work};
use fit::Fit;
pub use head_room::HeadRoom;
pub use line::Line;

use crate::alike::{Recorded, Unlike};

/// How the memory of a step grows with its size.
///
/// The peak of a step is the highest of many levels, and another level may be the highest at another size. So
/// a line through two peaks is too low beyond them. `Growth` gives each block of memory a line of its own,
/// adds up the lines of what lives at each moment, and keeps the few sums that are the highest somewhere.
///
/// A trace may hold one piece of work or two that are run one after the other while the values of the first
/// are held. Each is a scope of kind [`Attempt`](toma_trace::ScopeKind::Attempt). Where there is one, further
/// pieces are taken to be like it. All bytes are beyond those that were there before the trace.
///
/// ```
/// # mod toma { pub use toma_trace as trace; pub use toma_plan as plan; }
/// use toma::plan::{Growth, HeadRoom};
/// use toma::trace::{Contradiction, Place, Recorder, ThreadId, Trace};
///
/// /// Makes 1,000 bytes for each item, and gives back all but a gradient of 500.
/// fn step(items: u64) -> Result<Trace, Contradiction> {
///     let (thread, mut recorder) = (ThreadId(0), Recorder::new());
///     let values = recorder.birth(thread, &Place::HOST, 1000 * items)?;
///     recorder.birth(thread, &Place::HOST, 500)?;
///     recorder.death(thread, values)?;
///     Ok(recorder.finish())
/// }
///
/// let growth = Growth::fit(&[(4, &step(4)?), (8, &step(8)?)])?;
/// assert_eq!(growth.needs_bytes(&Place::HOST, 100), 100_500);
/// assert_eq!(growth.largest(&Place::HOST, HeadRoom::default().usable(52_000)), Some(50));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Growth {
    places: BTreeMap<Place, Grown>,
    blocks: Vec<Grows>,
    /// Of the traces, the smallest first.
    sizes: Vec<u64>,
    trace: Trace,
}

/// The moment of a step at which most bytes live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Highest {
    /// Bytes beyond those before the step.
    pub bytes: u64,
    /// The tick of [`Growth::trace`].
    pub tick: Tick,
    /// The innermost operator that runs then.
    pub operator: Option<OperatorId>,
}

/// A block that lives at some moment, at some size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveBlock {
    /// Its storage in [`Growth::trace`].
    pub storage: StorageId,
    /// The operator that made it.
    pub operator: Option<OperatorId>,
    /// Its bytes at that size.
    pub bytes: u64,
    /// Its bytes at every size from the smallest recorded one on.
    pub line: Line,
}

impl Growth {
    /// Takes traces of the same step, each with its size.
    ///
    /// One of them is kept: the largest of those with the most scratch. Traces by shapes alone, which have no
    /// scratch, say how all else grows.
    ///
    /// # Errors
    ///
    /// When there are less than two sizes, or the steps called other operators or made other blocks.
    pub fn fit(traces: &[(u32, &Trace)]) -> Result<Self, Unlike> {
        let recorded = traces.iter().map(|(size, trace)| Recorded { size: *size, trace, until: trace.end() });
        let mut sorted: Vec<_> = recorded.collect();
        sorted.sort_by_key(|traced| traced.size);
        let [smallest, _, ..] = sorted[..] else { return Err(Unlike::TooFew { traces: traces.len() }) };
        let twice = sorted.windows(2).find(|pair| pair[0].size == pair[1].size);
        if smallest.size == 0 || twice.is_some() {
            return Err(Unlike::Size { size: twice.map_or(0, |pair| pair[0].size) });
        }
        let matched = matched::matched(&sorted)?;
        let blocks: Vec<_> = matched.blocks.iter().map(Grows::of).collect();
        let trace = matched.trace.clone();
        let places: BTreeSet<_> = blocks.iter().map(|block| &block.place).collect();
        let smallest = u64::from(smallest.size);
        let grown = |place: &Place| Grown {
            smallest,
            above: pieces(&blocks, place, &trace, |fit| fit.line),
            below: pieces(&blocks, place, &trace, |fit| fit.below),
        };
        let places = places.into_iter().map(|place| (place.clone(), grown(place))).collect();
        let sizes = sorted.iter().map(|traced| u64::from(traced.size)).collect();
        Ok(Self { places, blocks, sizes, trace })
    }

    /// The places in which the step makes or frees memory.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.places.keys()
    }

    /// The trace that was kept.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The most bytes that live in a place while one piece of a size runs.
    #[must_use]
    pub fn needs_bytes(&self, place: &Place, size: u64) -> u64 {
        self.places.get(place).map_or(0, |grown| grown.at(size).highest(size).bytes_at(size))
    }

    /// The most bytes that live in a place while `items` are worked off in pieces of at most `size`, in full pieces
    /// and a rest or in even ones.
    #[must_use]
    pub fn needs_bytes_for(&self, place: &Place, size: u64, items: u64) -> u64 {
        self.places.get(place).map_or(0, |grown| grown.needs(size, Work { items, repeats: 0 }))
    }

    /// The same where what all pieces leave is there from the first piece on, as an output is that each piece is
    /// copied to: as if one more piece ran after them.
    #[must_use]
    pub fn needs_bytes_into(&self, place: &Place, size: u64, items: u64) -> u64 {
        self.places.get(place).map_or(0, |grown| grown.needs(size, Work { items, repeats: 1 }))
    }

    /// The line on which the peak of the first piece lies at a size.
    #[must_use]
    pub fn line(&self, place: &Place, size: u64) -> Line {
        self.places.get(place).map_or(Line::default(), |grown| grown.at(size).highest(size))
    }

    /// What a first piece leaves behind, and what each further one adds.
    #[must_use]
    pub fn leaves(&self, place: &Place) -> [Line; 2] {
        self.places.get(place).map_or_else(Default::default, |grown| [grown.above.left(), grown.above.adds()])
    }

    /// The largest size of which one piece needs at most `bytes`; `None` if a single item needs more.
    #[must_use]
    pub fn largest(&self, place: &Place, bytes: u64) -> Option<u64> {
        let Some(grown) = self.places.get(place) else { return Some(u64::MAX) };
        grown.largest_of_one(bytes, u64::MAX)
    }

    /// The largest size of which [`needs_bytes_for`](Self::needs_bytes_for) is at most `bytes`; `None` if there is
    /// none. A smaller size may need more, because of another rest.
    #[must_use]
    pub fn largest_for(&self, place: &Place, bytes: u64, items: u64) -> Option<u64> {
        self.largest_of(place, bytes, Work { items, repeats: 0 })
    }

    /// The largest size of which [`needs_bytes_into`](Self::needs_bytes_into) is at most `bytes`; `None` if there is
    /// none.
    #[must_use]
    pub fn largest_into(&self, place: &Place, bytes: u64, items: u64) -> Option<u64> {
        self.largest_of(place, bytes, Work { items, repeats: 1 })
    }

    fn largest_of(&self, place: &Place, bytes: u64, work: Work) -> Option<u64> {
        let Some(grown) = self.places.get(place) else { return Some(work.items).filter(|items| *items > 0) };
        grown.largest(bytes, work)
    }

    /// The moment at which most bytes live in a place, at a size: in the first piece, or in the first two.
    ///
    /// It looks at every block, so it takes time like the step that was recorded has events.
    #[must_use]
    pub fn highest(&self, place: &Place, size: u64, pieces: u64) -> Highest {
        let (first, second) = ends(&self.trace);
        let end = second.filter(|_| pieces > 1).unwrap_or(first);
        let levels = levels(&self.blocks, place, |fit| self.pick(fit, size));
        let moments = levels
            .into_iter()
            .filter(|(tick, _)| *tick <= end)
            .map(|(tick, line)| (line.bytes_at(size), tick));
        let (bytes, tick) = moments.rev().max_by_key(|(bytes, _)| *bytes).unwrap_or_default();
        let mut operators = self.trace.operators().rev();
        let operator = operators.find(|(_, operator)| operator.interval.contains(tick)).map(|(id, _)| id);
        Highest { bytes, tick, operator }
    }

    /// What the step holds of a place once the event of a tick has happened, at a size, the largest first.
    #[must_use]
    pub fn holders(&self, place: &Place, size: u64, tick: Tick) -> Vec<LiveBlock> {
        let alive = self.blocks.iter().filter(|block| block.place == *place && block.is_alive(tick));
        let mut holders: Vec<_> = alive.map(|block| self.held(block, size)).collect();
        holders.sort_by_key(|held| Reverse(held.bytes));
        holders
    }

    /// Blocks that grow with the square of the size, by traces of three sizes or more: rows that see each
    /// other.
    pub fn squares(&self) -> impl Iterator<Item = (StorageId, Option<OperatorId>)> {
        let squares = self.blocks.iter().filter(|block| block.fit.is_square);
        squares.map(|block| (block.storage, block.operator))
    }

    fn held(&self, block: &Grows, size: u64) -> LiveBlock {
        let line = self.pick(&block.fit, size);
        LiveBlock { storage: block.storage, operator: block.operator, bytes: line.bytes_at(size), line }
    }

    fn pick(&self, fit: &Fit, size: u64) -> Line {
        if size < self.sizes[0] { fit.below } else { fit.line }
    }
}
