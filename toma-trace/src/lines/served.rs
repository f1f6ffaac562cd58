//! Allocators that stand for those of a trace.

use crate::place::Place;
use crate::tables::Block;

/// An allocator that is asked for the blocks of a trace in their order.
pub trait Allocator {
    /// A block is asked for. Its number is that of no living one.
    fn allocate(&mut self, block: usize, bytes: u64);

    /// A living block is given back.
    fn free(&mut self, block: usize);

    /// The bytes of all living blocks, as the allocator counts them.
    fn allocated_bytes(&self) -> u64;

    /// The bytes it has reserved for them, used or not.
    fn reserved_bytes(&self) -> u64;
}

/// An allocator that stands for that of one place.
#[expect(missing_debug_implementations, reason = "it lends what need not have one")]
pub struct Served<'a> {
    /// Blocks of this place are asked of the allocator.
    pub place: Place,
    /// The device that has the allocator's figures in the table.
    pub shown_as: Place,
    /// What answers.
    pub allocator: &'a mut dyn Allocator,
}

/// What a place is called in the table.
pub(super) fn shown(place: &Place, served: Option<&Served<'_>>) -> Place {
    served.filter(|served| served.place == *place).map_or(place, |served| &served.shown_as).clone()
}

/// The bytes of a block, once it has been asked for.
pub(super) fn asked(number: usize, block: &Block, served: Option<&mut Served<'_>>) -> u64 {
    let Some(served) = served.filter(|served| served.place == block.place) else { return block.bytes };
    let before = served.allocator.allocated_bytes();
    served.allocator.allocate(number, block.bytes);
    served.allocator.allocated_bytes() - before
}
