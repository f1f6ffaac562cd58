//! Predicts the memory that a step needs at other sizes, from traces at a few sizes.
//!
//! # Why
//!
//! - **Each block has a line, not the peak.** The peak over sizes is the highest of many lines, so it is
//!   convex, and a line through two small peaks is too low beyond them.
//! - **Lines in integers.** Blocks of real steps lie on them to the byte. If a block does not, its slope is rounded up.
//! - **Scratch may be missing, other blocks may not.** Kernels choose their scratch by size. A block that outlives its
//!   operator at one size only shows that the steps did different work.
//! - **The base is the largest of the traces with the most scratch**; its order of births and deaths counts. The
//!   largest trace of all may be one by shapes alone, which has no scratch.

mod blocks;
mod cuts;
mod fit;
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
pub use line::Line;

use crate::alike::{SizedTrace, Unlike};

/// Growth of a step's memory with its size.
///
/// The peak of a step is the highest of many levels, and another level may be the highest at another size. So a line
/// through two peaks is too low beyond them. `Growth` gives each block of memory a line of its own, adds up the lines
/// of the live blocks at each moment, and keeps the few sums that are the highest somewhere.
///
/// A trace may hold one piece of work, or two that run one after the other while the values of the first are held. Each
/// is a scope of kind [`Attempt`](toma_trace::ScopeKind::Attempt). If there is only one, further pieces are assumed to
/// be like it. All bytes are in addition to those that existed before the trace.
///
/// ```
/// use toma_plan::Growth;
/// use toma_trace::{Contradiction, Place, Recorder, ThreadId, Trace};
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
/// assert_eq!(growth.largest(&Place::HOST, 51_000), Some(50));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Growth {
    places: BTreeMap<Place, Grown>,
    blocks: Vec<Grows>,
    /// Sizes of the traces, the smallest first.
    sizes: Vec<u64>,
    trace: Trace,
}

/// The moment of a step with the most live bytes.
///
/// ```
/// use toma_plan::{Growth, Highest};
///
/// /// The operator that runs when the most bytes are live.
/// fn peak_operator<'a>(growth: &'a Growth, highest: &Highest) -> Option<&'a str> {
///     Some(&*growth.trace()[highest.operator?].name)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Highest {
    /// Live bytes in addition to those from before the step.
    pub bytes: u64,
    /// Tick of the moment in [`Growth::trace`].
    pub tick: Tick,
    /// Innermost operator that runs at that moment.
    pub operator: Option<OperatorId>,
}

/// A live block at some moment and some size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveBlock {
    /// Storage of the block in [`Growth::trace`].
    pub storage: StorageId,
    /// Operator that made the block.
    pub operator: Option<OperatorId>,
    /// Bytes of the block at that size.
    pub bytes: u64,
    /// Bytes of the block at every size from the smallest recorded one on.
    pub line: Line,
}

impl Growth {
    /// Fits the growth from traces of the same step, each with its size.
    ///
    /// One trace is kept: the largest of those with the most scratch. Traces by shapes alone, which have no scratch,
    /// determine the growth of all other blocks.
    ///
    /// # Errors
    ///
    /// If there are less than two sizes, or the steps called different operators or made different blocks.
    pub fn fit(traces: &[(u32, &Trace)]) -> Result<Self, Unlike> {
        let recorded =
            traces.iter().map(|(size, trace)| SizedTrace { size: *size, trace, until: trace.end() });
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

    /// Returns the places in which the step makes or frees memory.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.places.keys()
    }

    /// Returns the trace that was kept.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Returns the most live bytes in a place while one piece of a size runs.
    #[must_use]
    pub fn needs_bytes(&self, place: &Place, size: u64) -> u64 {
        self.places.get(place).map_or(0, |grown| grown.at(size).highest(size).bytes_at(size))
    }

    /// Returns the most live bytes in a place while `items` are processed in pieces of at most `size`, in full pieces
    /// and a rest or in even pieces.
    #[must_use]
    pub fn needs_bytes_for(&self, place: &Place, size: u64, items: u64) -> u64 {
        self.places.get(place).map_or(0, |grown| grown.needs(size, Work { items, repeats: 0 }))
    }

    /// As [`needs_bytes_for`](Self::needs_bytes_for), if the results of all pieces are allocated from the first piece
    /// on, such as an output that each piece is copied to. Counts as if one more piece ran after the others.
    #[must_use]
    pub fn needs_bytes_into(&self, place: &Place, size: u64, items: u64) -> u64 {
        self.places.get(place).map_or(0, |grown| grown.needs(size, Work { items, repeats: 1 }))
    }

    /// Returns the line on which the peak of the first piece lies at a size.
    #[must_use]
    pub fn line(&self, place: &Place, size: u64) -> Line {
        self.places.get(place).map_or(Line::default(), |grown| grown.at(size).highest(size))
    }

    /// Returns the bytes that a first piece leaves behind, and those that each further piece adds.
    #[must_use]
    pub fn leaves(&self, place: &Place) -> [Line; 2] {
        self.places.get(place).map_or_else(Default::default, |grown| [grown.above.left(), grown.above.adds()])
    }

    /// Returns the largest size at which one piece needs at most `bytes`; `None` if a single item needs more.
    #[must_use]
    pub fn largest(&self, place: &Place, bytes: u64) -> Option<u64> {
        let Some(grown) = self.places.get(place) else { return Some(u64::MAX) };
        grown.largest_of_one(bytes, u64::MAX)
    }

    /// Returns the largest size at which [`needs_bytes_for`](Self::needs_bytes_for) is at most `bytes`; `None` if there
    /// is none. A smaller size may need more, because of another rest.
    #[must_use]
    pub fn largest_for(&self, place: &Place, bytes: u64, items: u64) -> Option<u64> {
        self.largest_of(place, bytes, Work { items, repeats: 0 })
    }

    /// Returns the largest size at which [`needs_bytes_into`](Self::needs_bytes_into) is at most `bytes`; `None` if
    /// there is none.
    #[must_use]
    pub fn largest_into(&self, place: &Place, bytes: u64, items: u64) -> Option<u64> {
        self.largest_of(place, bytes, Work { items, repeats: 1 })
    }

    fn largest_of(&self, place: &Place, bytes: u64, work: Work) -> Option<u64> {
        let Some(grown) = self.places.get(place) else { return Some(work.items).filter(|items| *items > 0) };
        grown.largest(bytes, work)
    }

    /// Returns the moment with the most live bytes in a place, at a size: in the first piece, or in the first two.
    ///
    /// Looks at every block, so the time is linear in the events of the recorded step.
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

    /// Returns the live blocks of a place just after the event of a tick, at a size, the largest first.
    #[must_use]
    pub fn holders(&self, place: &Place, size: u64, tick: Tick) -> Vec<LiveBlock> {
        let alive = self.blocks.iter().filter(|block| block.place == *place && block.is_alive(tick));
        let mut holders: Vec<_> = alive.map(|block| self.held(block, size)).collect();
        holders.sort_by_key(|held| Reverse(held.bytes));
        holders
    }

    fn held(&self, block: &Grows, size: u64) -> LiveBlock {
        let line = self.pick(&block.fit, size);
        LiveBlock { storage: block.storage, operator: block.operator, bytes: line.bytes_at(size), line }
    }

    fn pick(&self, fit: &Fit, size: u64) -> Line {
        if size < self.sizes[0] { fit.below } else { fit.line }
    }
}
