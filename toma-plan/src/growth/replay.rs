//! Replays the requests of a step at any size with the allocator of a device.

use std::collections::BTreeMap;

use toma_trace::{Place, Tick};

use super::Growth;
use super::blocks::{Grows, ends};
use crate::caching::{BlockId, CachingAllocator, OutOfMemory};

/// Sizes are close if they differ by at most one part in so many.
const CLOSE: u64 = 16;

/// Number of further pieces that are replayed: each changes the free blocks for the next, until they settle.
const PLAYED: u64 = 4;

impl Growth {
    /// Replays the allocations and frees of so many pieces of a size in a place, one piece after the other.
    ///
    /// Live bytes may fit although their segments do not: the allocator's figures count both. Bytes left by pieces
    /// beyond the replayed ones are requested at once. To free a block that existed before the trace, a block of its
    /// bytes is freed that the allocator [resumed](CachingAllocator::resumed) with.
    ///
    /// ```
    /// use toma_plan::Growth;
    /// use toma_plan::caching::CachingAllocator;
    /// use toma_trace::{Contradiction, Place, Recorder, ThreadId, Trace};
    ///
    /// fn step(items: u64) -> Result<Trace, Contradiction> {
    ///     let mut recorder = Recorder::new();
    ///     recorder.birth(ThreadId(0), &Place::device("cuda", 0), items << 20)?;
    ///     Ok(recorder.finish())
    /// }
    ///
    /// let growth = Growth::fit(&[(4, &step(4)?), (8, &step(8)?)])?;
    /// let mut allocator = CachingAllocator::new(64 << 20);
    /// growth.replay(&Place::device("cuda", 0), 9, 1, &mut allocator)?;
    /// assert_eq!(allocator.stats().allocated.peak, 9 << 20);
    /// assert_eq!(allocator.stats().reserved.peak, 20 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The first request that exceeds the allocator's capacity.
    pub fn replay(
        &self,
        place: &Place,
        size: u64,
        pieces: u64,
        allocator: &mut CachingAllocator,
    ) -> Result<(), OutOfMemory> {
        let (first, _) = ends(&self.trace);
        let mut held = BTreeMap::new();
        self.play(&self.requests(place, Tick::START, first), size, &mut held, allocator)?;
        self.further(place, (size, pieces.saturating_sub(1)), held, allocator)
    }

    /// Replays pieces that follow others, whose gradients and outputs are already allocated. Four pieces are replayed;
    /// the bytes that the others leave are requested before.
    ///
    /// # Errors
    /// The first request that exceeds the allocator's capacity.
    pub fn replay_further(
        &self,
        place: &Place,
        size: u64,
        pieces: u64,
        allocator: &mut CachingAllocator,
    ) -> Result<(), OutOfMemory> {
        self.further(place, (size, pieces), BTreeMap::new(), allocator)
    }

    fn further(
        &self,
        place: &Place,
        (size, pieces): (u64, u64),
        mut held: BTreeMap<usize, BlockId>,
        allocator: &mut CachingAllocator,
    ) -> Result<(), OutOfMemory> {
        let (first, second) = ends(&self.trace);
        let [_, adds] = self.leaves(place);
        // Without a second piece, further pieces are like the first.
        let (begin, end) = second.map_or((Tick::START, first), |second| (first, second));
        let requests = self.requests(place, begin, end);
        allocator.allocate(adds.times(pieces.saturating_sub(PLAYED)).bytes_at(size))?;
        for _ in 0..pieces.min(PLAYED) {
            self.play(&requests, size, &mut held, allocator)?;
            held.clear();
        }
        Ok(())
    }

    /// Replays requests. `held` has the allocations of the live blocks, by number.
    fn play(
        &self,
        requests: &[(Tick, usize, &Grows)],
        size: u64,
        held: &mut BTreeMap<usize, BlockId>,
        allocator: &mut CachingAllocator,
    ) -> Result<(), OutOfMemory> {
        for (tick, at, block) in requests {
            let size = if self.is_scratch(block) { self.close(size) } else { size };
            let bytes = block.seen(size).unwrap_or_else(|| self.pick(&block.fit, size).bytes_at(size));
            if block.birth == Some(*tick) {
                held.insert(*at, allocator.allocate(bytes)?);
            } else if let Some(id) = held.remove(at) {
                allocator.free(id).expect("a held block is freed once");
            } else {
                allocator.free_older(bytes);
            }
        }
        Ok(())
    }

    /// Returns the next larger recorded size if it is close, else the size. Scratch grows in steps, so just below a
    /// recorded size it may be as large as at that size.
    fn close(&self, size: u64) -> u64 {
        let larger = self.sizes[self.sizes.partition_point(|known| *known < size)..].first().copied();
        larger.filter(|known| known - size <= known / CLOSE).unwrap_or(size)
    }

    /// True if a block dies within the operator that makes it.
    fn is_scratch(&self, block: &Grows) -> bool {
        let end = block.operator.map(|operator| self.trace[operator].interval.end);
        block.death.is_some_and(|death| end.is_some_and(|end| death < end))
    }

    /// Returns births and deaths in a place after a tick and up to another, in their order, each with the number of its
    /// block.
    fn requests(&self, place: &Place, after: Tick, until: Tick) -> Vec<(Tick, usize, &Grows)> {
        let of_place = self.blocks.iter().enumerate().filter(|(_, block)| block.place == *place);
        let ticks = of_place.flat_map(|(at, block)| {
            [block.birth, block.death].into_iter().flatten().map(move |tick| (tick, at, block))
        });
        let mut requests: Vec<_> = ticks.filter(|(tick, ..)| *tick > after && *tick <= until).collect();
        requests.sort_by_key(|(tick, at, _)| (*tick, *at));
        requests
    }
}
