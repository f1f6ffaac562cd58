//! Segments and their blocks.

/// Tells the allocations of one `CachingAllocator` apart; no two of them have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub(super) u64);

/// Which sizes share segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pool {
    /// Up to 1 MiB.
    Small,
    /// Above 1 MiB.
    Large,
}

/// A part of a segment, in use or free as a whole. Free blocks are ordered as the allocator looks for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Block {
    /// The pool whose sizes it serves, which is that of its segment.
    pub pool: Pool,
    /// Its bytes.
    pub bytes: u64,
    /// The address of its first byte.
    pub address: u64,
    /// The bytes that were asked for; `None` where it is free.
    pub requested: Option<u64>,
}

/// Memory that was reserved at once, and its blocks side by side.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Segment {
    /// The address of its first byte.
    pub address: u64,
    /// Its bytes, in use or not.
    pub bytes: u64,
    /// Its blocks, by address.
    pub blocks: Vec<Block>,
}

impl Segment {
    /// A segment of a pool with these blocks, one behind the other: the bytes of each, and what was asked for if it is
    /// in use. It has no address of its own.
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
