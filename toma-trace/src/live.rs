//! Live bytes over time, and their holders.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::place::Place;
use crate::tables::{Block, StorageId, Trace};
use crate::tick::Tick;

/// The live bytes of one place over the ticks of a trace.
///
/// ```
/// # let (host, thread) = (toma_trace::Place::HOST, toma_trace::ThreadId(0));
/// # let mut recorder = toma_trace::Recorder::new();
/// # let weights = recorder.existing(&host, 4000)?;
/// # let operator = recorder.begin_operator(thread, "aten::relu");
/// # let result = recorder.birth(thread, &host, 1000)?;
/// # recorder.uses(operator, toma_trace::Operand::new(weights, toma_trace::Access::Reads, &[10, 100]))?;
/// # recorder.uses(operator, toma_trace::Operand::new(result, toma_trace::Access::Makes, &[10, 25]))?;
/// # recorder.end_operator(operator)?;
/// # let trace = recorder.finish();
/// use toma_trace::Place;
///
/// let live = trace.live(&Place::HOST);
/// assert_eq!((live.before(), live.peak().bytes, live.after()), (4000, 5000, 5000));
/// # Ok::<(), toma_trace::Contradiction>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// Each tick at which the bytes changed, with the bytes from then on. The first is the start.
    steps: Vec<(Tick, u64)>,
}

/// The most live bytes.
///
/// ```
/// # let (host, thread) = (toma_trace::Place::HOST, toma_trace::ThreadId(0));
/// # let mut recorder = toma_trace::Recorder::new();
/// # let weights = recorder.existing(&host, 4000)?;
/// # let operator = recorder.begin_operator(thread, "aten::relu");
/// # let result = recorder.birth(thread, &host, 1000)?;
/// # recorder.uses(operator, toma_trace::Operand::new(weights, toma_trace::Access::Reads, &[10, 100]))?;
/// # recorder.uses(operator, toma_trace::Operand::new(result, toma_trace::Access::Makes, &[10, 25]))?;
/// # recorder.end_operator(operator)?;
/// # let trace = recorder.finish();
/// use toma_trace::Place;
///
/// let peak = trace.live(&Place::HOST).peak();
/// let holders = trace.holders(&Place::HOST, peak.tick);
/// assert_eq!(holders.iter().map(|holder| holder.bytes).sum::<u64>(), peak.bytes);
/// # Ok::<(), toma_trace::Contradiction>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peak {
    /// The bytes.
    pub bytes: u64,
    /// First tick with these bytes: [`Tick::START`] if they existed before the trace.
    pub tick: Tick,
}

/// A storage and the bytes of its live block.
///
/// ```
/// # let (host, thread) = (toma_trace::Place::HOST, toma_trace::ThreadId(0));
/// # let mut recorder = toma_trace::Recorder::new();
/// # let weights = recorder.existing(&host, 4000)?;
/// # let operator = recorder.begin_operator(thread, "aten::relu");
/// # let result = recorder.birth(thread, &host, 1000)?;
/// # recorder.uses(operator, toma_trace::Operand::new(weights, toma_trace::Access::Reads, &[10, 100]))?;
/// # recorder.uses(operator, toma_trace::Operand::new(result, toma_trace::Access::Makes, &[10, 25]))?;
/// # recorder.end_operator(operator)?;
/// # let trace = recorder.finish();
/// use toma_trace::Place;
///
/// for holder in trace.holders(&Place::HOST, trace.end()) {
///     println!("{}: {} bytes", holder.storage, holder.bytes); // the largest first
/// }
/// # Ok::<(), toma_trace::Contradiction>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The storage.
    pub storage: StorageId,
    /// Bytes of its block.
    pub bytes: u64,
}

impl Trace {
    /// Returns every place in which there was a block.
    #[must_use]
    pub fn places(&self) -> BTreeSet<&Place> {
        self.blocks().map(|(_, block)| &block.place).collect()
    }

    /// Returns the live bytes of a place, at every tick, with those of blocks older than the trace.
    /// [`live_born`](Self::live_born) leaves older blocks out.
    #[must_use]
    pub fn live(&self, place: &Place) -> Live {
        Live::of(self.blocks_in(place).map(|(_, block)| block))
    }

    /// Returns the live bytes of blocks born in the trace, which the step adds to the memory that was there before.
    /// Freeing an older block makes no room. [`live`](Self::live) includes older blocks.
    #[must_use]
    pub fn live_born(&self, place: &Place) -> Live {
        Live::of(self.blocks_in(place).map(|(_, block)| block).filter(|block| block.birth.is_some()))
    }

    /// Returns the holders of memory of a place just after the event of a tick, the largest first.
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
        let mut steps = vec![(Tick::START, 0_u64)];
        for (tick, change) in changes {
            let (last, bytes) = steps[steps.len() - 1];
            if tick == last {
                steps.pop();
            }
            steps.push((tick, bytes.wrapping_add(change)));
        }
        Self { steps }
    }

    /// Returns the bytes just after the event of a tick.
    #[must_use]
    pub fn at(&self, tick: Tick) -> u64 {
        let later = self.steps.partition_point(|(step, _)| *step <= tick);
        self.steps[later - 1].1
    }

    /// Returns the bytes before the first event.
    #[must_use]
    pub fn before(&self) -> u64 {
        self.at(Tick::START)
    }

    /// Returns the bytes after the last event.
    #[must_use]
    pub fn after(&self) -> u64 {
        self.steps[self.steps.len() - 1].1
    }

    /// Returns the most bytes at any tick, including the time before the trace.
    #[must_use]
    pub fn peak(&self) -> Peak {
        let first_highest = self.steps.iter().rev().max_by_key(|(_, bytes)| *bytes);
        let (tick, bytes) = *first_highest.unwrap_or(&self.steps[0]);
        Peak { bytes, tick }
    }

    /// Returns each tick at which the bytes changed, with the bytes from then on; the first is [`Tick::START`].
    #[must_use]
    pub fn steps(&self) -> &[(Tick, u64)] {
        &self.steps
    }
}

/// Returns the bytes that are added at each tick. A death adds negative ones, with wrap-around.
fn changes(block: &Block) -> impl Iterator<Item = (Tick, u64)> + use<> {
    let birth = block.birth.map_or(Tick::START, |birth| birth.tick);
    let death = block.death.map(|death| (death.tick, block.bytes.wrapping_neg()));
    [(birth, block.bytes)].into_iter().chain(death)
}
