//! Events of the calling thread, recorded where a recording runs.

use super::failure::Living;
use super::here::{Here, here, is_paused, unless_paused};
use super::moves;
use super::names::NameId;
use super::owner::{EXEMPT, Owner};
use super::shared::runs;
use super::told::{Node, Told};
use crate::lines::DeviceId;

/// The allocator of a device has so many bytes reserved now.
pub fn reserved(device: u8, total: u64) {
    unless_paused(|here| {
        if here.has(device) {
            here.stack.reserved(DeviceId(device.into()), total);
        }
    });
}

/// A block was allocated on the device of that place among those of [`of`](super::Counting::of), to compute the
/// gradient of a node if one runs. The answer belongs to the block.
pub fn allocated(device: u8, address: u64, bytes: u64, node: Node) -> Owner {
    if is_paused() && runs() {
        return EXEMPT;
    }
    if let Some(owner) = moves::moving() {
        let told = here(|here| here.has(device).then(|| here.returned(device, address, bytes, owner)));
        return moves::is_moved(address, owner, told.flatten().unwrap_or(owner));
    }
    let told = here(|here| here.has(device).then(|| here.allocated(device, address, bytes, node)));
    told.flatten().unwrap_or(Owner(0))
}

/// A block was given back, with what [`allocated`] has answered for it; 0 where it was never asked.
pub fn freed(device: u8, address: u64, bytes: u64, owner: Owner) {
    if moves::moving().is_some() {
        let left = |here: &mut Here| here.has(device).then(|| here.left(device, address, bytes, owner));
        let told = if owner == EXEMPT { None } else { here(left).flatten() };
        moves::is_moved(address, owner, told.unwrap_or(owner));
    } else if owner != EXEMPT {
        here(|here| here.has(device).then(|| here.freed(device, address, bytes, owner)));
    }
}

/// A device has no memory for so many bytes. `operator` says what has asked for them, where operators are not told of.
/// `holders` tells of all blocks that live on it. Both may allocate nothing.
pub fn out_of_memory(
    device: u8,
    asked: u64,
    operator: impl FnOnce() -> NameId,
    holders: impl FnOnce(&mut dyn FnMut(Living)),
) {
    unless_paused(|here| {
        if !here.has(device) {
            return;
        }
        // A node works without an operator of its own.
        let told = here.operators.last().copied().filter(|told| *told != NameId::NONE);
        let operator = told.unwrap_or_else(operator);
        here.out_of_memory(device, asked, operator, holders);
    });
}

/// An operator begins, with the number that it has in common with the node of its gradient.
pub fn operator_begins(name: NameId, node: Node) {
    unless_paused(|here| {
        if here.operators.is_empty() {
            here.now.operator = Some(here.moment());
        }
        here.operators.push(name);
        here.tell(Told::Operator(name, node));
    });
}

/// A node of the graph of gradients begins.
pub fn node_begins(name: NameId, node: Node) {
    unless_paused(|here| {
        here.operators.push(NameId::NONE);
        here.tell(Told::Node(name, node));
    });
}

/// The operator or node that began last ends.
pub fn ends() {
    unless_paused(|here| {
        here.operators.pop();
        here.tell(Told::Ends);
    });
}
