//! libtorch's caching allocator for CUDA, replayed without a device.
//!
//! A program runs out of memory on CUDA before its tensors fill the device. The allocator rounds sizes up, cuts blocks
//! from segments and keeps freed memory, so the reserved bytes decide if a program fits. This replay computes them from
//! the requests alone.
//!
//! ```
//! use toma_plan::caching::CachingAllocator;
//!
//! const MIB: u64 = 1 << 20;
//!
//! let mut allocator = CachingAllocator::new(24 * MIB);
//! let image = allocator.allocate(5 * MIB)?; // cut from a segment of 20 MiB
//! allocator.allocate(100)?; // 512 bytes of a segment of 2 MiB
//! assert_eq!(allocator.stats().allocated.current, 5 * MIB + 512);
//! assert_eq!(allocator.stats().reserved.current, 22 * MIB);
//!
//! allocator.free(image)?;
//! let error = allocator.allocate(24 * MIB).unwrap_err(); // the segment of 2 MiB is still in use
//! assert_eq!(error.reserved_bytes, 2 * MIB);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Rules
//!
//! - Sizes are rounded up to multiples of 512 bytes.
//! - Sizes up to 1 MiB come from the small pool, whose segments have 2 MiB.
//! - Larger sizes come from the large pool. Segments have 20 MiB for sizes below 10 MiB. From there on, a
//!   segment has the size, rounded up to 2 MiB.
//! - A request gets the smallest free block of the pool that is large enough; among equals the one at the lowest
//!   address.
//! - A small block is cut if at least 512 bytes are left over, a large one if more than 1 MiB is. Otherwise the block
//!   keeps the rest, and all of it counts as allocated.
//! - A freed block merges with free neighbors of its segment.
//! - If no block is large enough, the driver gives a new segment, as long as the capacity holds it. If it does not, the
//!   free segments of both pools go back to the driver, and it is asked once more: a retry.
//! - If the retry fails, too, the request is out of memory. Segments that were released stay released.
//!
//! # Not replayed
//!
//! - Streams: there is one. No block waits for the events of another stream, so active bytes are allocated
//!   bytes.
//! - Private pools of CUDA graphs, and expandable segments.
//! - The options `max_split_size_mb`, `garbage_collection_threshold`, `roundup_power2_divisions`,
//!   `large_segment_size_mb` and `max_non_split_rounding_mb`: they are as if never set.
//! - The driver's choice of addresses. Here each new segment lies behind the last existing one, so a tie goes to the
//!   older segment. On a device it may go to another block of the same size.
//!
//! # Source
//!
//! The rules are those of PyTorch 2.11.0: `DeviceCachingAllocator` in `c10/cuda/CUDACachingAllocator.cpp`
//! (`malloc`, `get_free_block`, `should_split`, `alloc_block`, `free_block`), with the sizes and options of
//! `c10/core/AllocatorConfig.{h,cpp}`.

mod as_cuda;
mod block;
mod error;
mod sizes;
mod stats;

use std::collections::{BTreeMap, BTreeSet};

pub use as_cuda::as_cuda;
pub use block::{Block, BlockId, Pool, Segment};
pub use error::{InvalidFree, OutOfMemory};
pub use stats::{Bytes, DeviceStats};

use sizes::{REFUSED, rest, rounded, segment_bytes};

/// Replay of the caching allocator for the memory of one device.
///
/// It allocates no memory of a device. A call takes time logarithmic in the number of blocks, and a release of segments
/// takes time linear in it.
#[derive(Clone, Debug)]
pub struct CachingAllocator {
    capacity_bytes: u64,
    /// The bytes of each segment, by address.
    segments: BTreeMap<u64, u64>,
    /// Blocks by address. They fill the segments, and of two neighbors in a segment at most one is free.
    blocks: BTreeMap<u64, Block>,
    /// Free blocks, in the order in which the allocator searches them.
    free: BTreeSet<Block>,
    /// Addresses of allocations that are not freed; `None` for an allocation of 0 bytes.
    held: BTreeMap<BlockId, Option<u64>>,
    handed_out: u64,
    /// Blocks that were in use when the allocator resumed, as pairs of requested bytes and address.
    older: BTreeSet<(u64, u64)>,
    stats: DeviceStats,
}

impl CachingAllocator {
    /// Creates an allocator that has reserved nothing yet, of a device that has `capacity_bytes` for segments.
    ///
    /// The capacity is the free bytes of the device, or the limit set by `set_per_process_memory_fraction`. The CUDA
    /// context and other programs are not part of it. A capacity of 0 serves only requests of 0 bytes.
    pub fn new(capacity_bytes: u64) -> Self {
        Self {
            capacity_bytes,
            segments: BTreeMap::new(),
            blocks: BTreeMap::new(),
            free: BTreeSet::new(),
            held: BTreeMap::new(),
            handed_out: 0,
            older: BTreeSet::new(),
            stats: DeviceStats::default(),
        }
    }

    /// Creates an allocator that continues from the segments of an earlier one. It lays them one behind the other.
    ///
    /// ```
    /// use toma_plan::caching::{CachingAllocator, Pool, Segment};
    ///
    /// const MIB: u64 = 1 << 20;
    ///
    /// // 25 MiB are free, in two pieces.
    /// let left = Segment::new(Pool::Large, [(15 * MIB, None), (5 * MIB, Some(5 * MIB)), (10 * MIB, None)]);
    /// let mut allocator = CachingAllocator::resumed(40 * MIB, [left]);
    /// assert!(allocator.allocate(25 * MIB).is_err());
    /// assert!(allocator.allocate(15 * MIB).is_ok());
    /// ```
    pub fn resumed(capacity_bytes: u64, segments: impl IntoIterator<Item = Segment>) -> Self {
        let mut allocator = Self::new(capacity_bytes);
        let mut end = 0;
        for segment in segments {
            let address = end;
            for block in segment.blocks {
                // Clamped to a size that no device has, so that sums of addresses and bytes do not overflow.
                let bytes = block.bytes.min(REFUSED - end);
                allocator.resume(Block { bytes, address: end, ..block });
                end += bytes;
            }
            if end > address {
                allocator.segments.insert(address, end - address);
                allocator.stats.reserved.add(end - address);
            }
        }
        allocator
    }

    fn resume(&mut self, block: Block) {
        if block.bytes == 0 {
            return;
        }
        let Some(requested) = block.requested else { return self.add_free(block) };
        self.blocks.insert(block.address, block);
        self.older.insert((requested, block.address));
        self.stats.occupy(block.bytes, requested);
    }

    /// Frees a block of so many requested bytes that was in use when this allocator [resumed](Self::resumed). Returns
    /// false if there is none.
    pub fn free_older(&mut self, requested_bytes: u64) -> bool {
        let found = self.older.range((requested_bytes, 0)..=(requested_bytes, u64::MAX)).next().copied();
        if let Some(older) = found {
            self.older.remove(&older);
            self.give_back(older.1);
        }
        found.is_some()
    }

    /// Allocates a block for `bytes` bytes. Zero bytes take no block, change no figure and never fail.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the capacity does not hold the segment that the request needs, even after every free segment
    /// was released. Also for 1 EiB and more, which libtorch refuses before it releases anything.
    pub fn allocate(&mut self, bytes: u64) -> Result<BlockId, OutOfMemory> {
        let address = match bytes {
            0 => None,
            _ => Some(self.place(bytes).ok_or_else(|| self.out_of_memory(bytes))?),
        };
        let id = BlockId(self.handed_out);
        self.handed_out += 1;
        self.held.insert(id, address);
        Ok(id)
    }

    /// Frees a block. Its memory stays reserved.
    ///
    /// # Errors
    /// [`InvalidFree`] for an allocation that was already freed or that this allocator never made. Nothing changes
    /// then.
    pub fn free(&mut self, id: BlockId) -> Result<(), InvalidFree> {
        match self.held.remove(&id) {
            Some(Some(address)) => self.give_back(address),
            Some(None) => {}
            None if id.0 < self.handed_out => return Err(InvalidFree::FreedTwice(id)),
            None => return Err(InvalidFree::Unknown(id)),
        }
        Ok(())
    }

    /// Returns every segment without a block in use to the driver, as `empty_cache` does.
    pub fn release_cached_memory(&mut self) {
        let is_whole = |free: &&Block| self.segments.get(&free.address) == Some(&free.bytes);
        let whole: Vec<_> = self.free.iter().filter(is_whole).copied().collect();
        for segment in whole {
            self.remove_free(segment);
            self.segments.remove(&segment.address);
            self.stats.reserved.subtract(segment.bytes);
        }
    }

    /// Returns the bytes in each state, their peaks, and the number of retries.
    pub fn stats(&self) -> DeviceStats {
        self.stats
    }

    /// Returns the segments by address, each with its blocks.
    pub fn segments(&self) -> impl Iterator<Item = Segment> {
        self.segments.iter().map(|(&address, &bytes)| {
            let blocks = self.blocks.range(address..address + bytes);
            Segment { address, bytes, blocks: blocks.map(|(_, block)| *block).collect() }
        })
    }

    fn place(&mut self, bytes: u64) -> Option<u64> {
        if bytes >= REFUSED {
            return None;
        }
        let size = rounded(bytes);
        let free = self.best_fit(size).or_else(|| self.reserve(size))?;
        self.occupy(free, size, bytes);
        Some(free.address)
    }

    /// Returns the smallest free block of the pool that is large enough, among equals the one at the lowest address.
    fn best_fit(&self, size: u64) -> Option<Block> {
        let least = Block { pool: Pool::of(size), bytes: size, address: 0, requested: None };
        self.free.range(least..).next().copied().filter(|block| block.pool == least.pool)
    }

    /// Reserves a new segment, after releasing others if there is no other way.
    fn reserve(&mut self, size: u64) -> Option<Block> {
        self.add_segment(size).or_else(|| {
            self.release_cached_memory();
            self.stats.retries += 1;
            self.add_segment(size)
        })
    }

    /// Asks the driver for a segment; `None` if the capacity has no room for it.
    fn add_segment(&mut self, size: u64) -> Option<Block> {
        let bytes = segment_bytes(size);
        if bytes > self.capacity_bytes.saturating_sub(self.stats.reserved.current) {
            return None;
        }
        let address = self.segments.last_key_value().map_or(0, |(address, bytes)| address + bytes);
        // An address beyond 64 bits counts as out of memory.
        address.checked_add(bytes)?;
        self.segments.insert(address, bytes);
        self.stats.reserved.add(bytes);
        let whole = Block { pool: Pool::of(size), bytes, address, requested: None };
        self.add_free(whole);
        Some(whole)
    }

    fn occupy(&mut self, free: Block, size: u64, requested: u64) {
        self.remove_free(free);
        let rest = rest(free, size);
        let bytes = free.bytes - rest;
        self.blocks.insert(free.address, Block { bytes, requested: Some(requested), ..free });
        if rest > 0 {
            self.add_free(Block { bytes: rest, address: free.address + bytes, ..free });
        }
        self.stats.occupy(bytes, requested);
    }

    fn give_back(&mut self, address: u64) {
        let used = self.blocks.remove(&address).expect("a block is held");
        let mut merged = Block { requested: None, ..used };
        for neighbor in self.neighbors(address).into_iter().flatten().filter(|it| it.requested.is_none()) {
            self.remove_free(neighbor);
            merged.address = merged.address.min(neighbor.address);
            merged.bytes += neighbor.bytes;
        }
        self.add_free(merged);
        self.stats.give_back(used.bytes, used.requested.unwrap_or(0));
    }

    /// Returns the blocks before and behind an address that belong to the same segment.
    fn neighbors(&self, address: u64) -> [Option<Block>; 2] {
        let begins = |address: u64| self.segments.contains_key(&address);
        let before = self.blocks.range(..address).next_back().filter(|_| !begins(address));
        let behind = self.blocks.range(address..).next().filter(|(behind, _)| !begins(**behind));
        [before, behind].map(|neighbor| neighbor.map(|(_, block)| *block))
    }

    fn add_free(&mut self, block: Block) {
        self.blocks.insert(block.address, block);
        self.free.insert(block);
    }

    fn remove_free(&mut self, block: Block) {
        self.blocks.remove(&block.address);
        self.free.remove(&block);
    }

    fn out_of_memory(&self, requested_bytes: u64) -> OutOfMemory {
        OutOfMemory {
            requested_bytes,
            allocated_bytes: self.stats.allocated.current,
            reserved_bytes: self.stats.reserved.current,
            capacity_bytes: self.capacity_bytes,
        }
    }
}
