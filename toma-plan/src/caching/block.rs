//! Segments and their blocks.

/// Identifies an allocation of one `CachingAllocator`; no two allocations share an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub(super) u64);

/// Range of sizes that share segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pool {
    /// Up to 1 MiB.
    Small,
    /// Above 1 MiB.
    Large,
}

/// A part of a segment, in use or free as a whole. Free blocks are ordered as the allocator searches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Block {
    /// The pool of the block's segment, whose sizes the block serves.
    pub pool: Pool,
    /// Size of the block in bytes.
    pub bytes: u64,
    /// Address of the first byte.
    pub address: u64,
    /// The requested bytes; `None` for a free block.
    pub requested: Option<u64>,
}

/// Memory that was reserved at once, divided into adjacent blocks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Segment {
    /// Address of the first byte.
    pub address: u64,
    /// Size of the segment in bytes, in use or not.
    pub bytes: u64,
    /// Blocks of the segment, by address.
    pub blocks: Vec<Block>,
}

impl Segment {
    /// Creates a segment of a pool from adjacent blocks, each given by its bytes and, if it is in use, the bytes that
    /// were requested. The segment has no address of its own.
    pub fn new(pool: Pool, blocks: impl IntoIterator<Item = (u64, Option<u64>)>) -> Self {
        let mut address = 0;
        let blocks = blocks.into_iter().map(|(bytes, requested)| {
            let block = Block { pool, bytes, address, requested };
            address = address.saturating_add(bytes);
            block
        });
        let blocks = blocks.collect();
        Self { address: 0, bytes: address, blocks }
    }
}
