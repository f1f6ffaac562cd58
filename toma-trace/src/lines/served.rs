//! Allocators that replace those of a trace.

use crate::place::Place;
use crate::tables::Block;

/// An allocator that serves the blocks of a trace in their order.
pub trait Allocator {
    /// Allocates a block. Its number is that of no live block.
    fn allocate(&mut self, block: usize, bytes: u64);

    /// Frees a live block.
    fn free(&mut self, block: usize);

    /// Returns the bytes of all live blocks, as the allocator counts them.
    fn allocated_bytes(&self) -> u64;

    /// Returns the bytes it has reserved for them, used or not.
    fn reserved_bytes(&self) -> u64;
}

/// An allocator that replaces the one of one place.
#[expect(missing_debug_implementations, reason = "it lends what need not have one")]
pub struct Served<'a> {
    /// The place whose blocks the allocator serves.
    pub place: Place,
    /// The device that has the allocator's figures in the table.
    pub shown_as: Place,
    /// The allocator.
    pub allocator: &'a mut dyn Allocator,
}

/// Returns the name of a place in the table.
pub(super) fn shown(place: &Place, served: Option<&Served<'_>>) -> Place {
    served.filter(|served| served.place == *place).map_or(place, |served| &served.shown_as).clone()
}

/// Requests a block and returns its bytes.
pub(super) fn requested(number: usize, block: &Block, served: Option<&mut Served<'_>>) -> u64 {
    let Some(served) = served.filter(|served| served.place == block.place) else { return block.bytes };
    let before = served.allocator.allocated_bytes();
    served.allocator.allocate(number, block.bytes);
    served.allocator.allocated_bytes() - before
}
