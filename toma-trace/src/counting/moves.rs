//! Storages that are evicted and fetched: their blocks change, the storages do not.

use std::cell::Cell;

use super::here::Here;
use super::names::NameId;
use super::owner::{EXEMPT, Owner};
use super::packed::{Packed, PackedBlock};
use crate::lines::{Born, DeviceId};

thread_local! {
    static MOVES: Cell<Option<Moved>> = const { Cell::new(None) };
}

/// A block that was freed or allocated to move a storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Address of the block; 0 if none was reported.
    pub address: u64,
    /// Owner before the move.
    pub before: Owner,
    /// Owner from now on.
    pub owner: Owner,
}

/// Runs `act`, which frees or allocates the block of a storage that is moved, on this thread. The block counts neither
/// as allocated nor as freed by a line.
///
/// `owner` identifies an evicted storage that is fetched; to evict a storage, its value does not matter.
///
/// ```
/// use toma_trace::Place;
/// use toma_trace::counting::{self, Counting, Node};
///
/// let counting = Counting::of(&[(Place::HOST, 0)]).start()?;
/// let born = counting::allocated(0, 0x1000, 384, Node::default());
/// let ((), left) = counting::moves(born, || counting::freed(0, 0x1000, 384, born));
/// let (now, returned) = counting::moves(left.owner, || counting::allocated(0, 0x2000, 384, Node::default()));
/// assert_eq!((left.address, returned.address), (0x1000, 0x2000));
/// assert_eq!((now, returned.owner), (born, born));
/// # drop(counting);
/// # Ok::<(), toma_core::marks::Busy>(())
/// ```
pub fn moves<R>(owner: Owner, act: impl FnOnce() -> R) -> (R, Moved) {
    let _outer = Outer(MOVES.replace(Some(Moved { owner, ..Moved::default() })));
    let done = act();
    (done, MOVES.get().unwrap_or_default())
}

/// The move that was under way before.
struct Outer(Option<Moved>);

impl Drop for Outer {
    fn drop(&mut self) {
        MOVES.set(self.0);
    }
}

/// Returns the owner of the storage that this thread moves, if it moves one.
pub fn moving() -> Option<Owner> {
    MOVES.get().map(|moved| moved.owner)
}

/// Records the block that was moved.
pub(super) fn is_moved(address: u64, before: Owner, owner: Owner) -> Owner {
    MOVES.set(Some(Moved { address, before, owner }));
    owner
}

impl Here {
    /// Records an eviction. Returns the owner from now on: a storage older than the recording had none.
    pub(super) fn left(&mut self, device: u8, address: u64, bytes: u64, owner: Owner) -> Owner {
        let born = owner.born(self.shared.number);
        self.stack.left(DeviceId(device.into()), bytes, born);
        let position =
            self.record(Packed::Died(PackedBlock { device, address, bytes, operator: NameId::NONE }));
        if born.is_some() { owner } else { self.taken_over(position, owner) }
    }

    /// Records a fetch. Returns the owner from now on.
    pub(super) fn returned(&mut self, device: u8, address: u64, bytes: u64, owner: Owner) -> Owner {
        if owner == EXEMPT {
            return owner;
        }
        self.end_failure();
        let born = owner.born(self.shared.number);
        // An older storage is kept from now on: it counts as freed later.
        self.stack.returned(DeviceId(device.into()), bytes, Some(born.unwrap_or(Born(None))));
        if born.is_some() {
            self.record(Packed::Fetches(owner.moment()));
        }
        let operator = self.operators.last().copied().unwrap_or(NameId::NONE);
        let position = self.record(Packed::Born(PackedBlock { device, address, bytes, operator }));
        if born.is_some() { owner } else { self.taken_over(position, owner) }
    }

    /// Assigns a storage to this recording from now on, born in none of its lines.
    fn taken_over(&self, position: u64, owner: Owner) -> Owner {
        let moment = self.moment_of(position);
        let is_in_optimizer = owner != Owner(0) && owner.is_of_optimizer();
        Owner::new(self.shared.number, Born(None), moment, is_in_optimizer)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Counting, Node, allocated, freed};
    use super::moves;
    use crate::Place;

    #[test]
    fn a_block_evicted_before_the_recording_is_kept_from_its_return_to_its_end() {
        let first = Counting::of(&[(Place::HOST, 0)]).start().unwrap();
        let born = allocated(0, 0x1000, 384, Node::default());
        let ((), left) = moves(born, || freed(0, 0x1000, 384, born));
        drop(first);
        let second = Counting::of(&[(Place::HOST, 0)]).start().unwrap();
        let kept = || second.shared.lines().to_string();
        let (_, returned) = moves(left.owner, || allocated(0, 0x2000, 384, Node::default()));
        freed(0, 0x2000, 384, returned.owner);
        assert!(kept().contains("384.00B freed, 0.00B kept"), "{}", kept());
    }
}
