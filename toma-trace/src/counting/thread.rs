//! Events of the calling thread, recorded if a recording runs.

use super::failure::Living;
use super::here::{Here, here, is_paused, unless_paused};
use super::moves;
use super::names::NameId;
use super::owner::{EXEMPT, Owner};
use super::packed::Packed;
use super::shared::runs;
use crate::event::Node;
use crate::lines::DeviceId;

/// Records that the allocator of a device has so many bytes reserved now.
pub fn reserved(device: u8, total: u64) {
    unless_paused(|here| {
        if here.has(device) {
            here.stack.reserved(DeviceId(device.into()), total);
        }
    });
}

/// Records that a block was allocated on a device, by its index among those of [`of`](super::Counting::of), to compute
/// the gradient of a node if one runs. The caller keeps the returned owner with the block.
pub fn allocated(device: u8, address: u64, bytes: u64, node: Node) -> Owner {
    if is_paused() && runs() {
        return EXEMPT;
    }
    if let Some(owner) = moves::moving() {
        let counted = here(|here| here.has(device).then(|| here.returned(device, address, bytes, owner)));
        return moves::is_moved(address, owner, counted.flatten().unwrap_or(owner));
    }
    let counted = here(|here| here.has(device).then(|| here.allocated(device, address, bytes, node)));
    counted.flatten().unwrap_or(Owner(0))
}

/// Records that a block was freed, with the owner that [`allocated`] returned; 0 if it was never called.
pub fn freed(device: u8, address: u64, bytes: u64, owner: Owner) {
    if moves::moving().is_some() {
        let left = |here: &mut Here| here.has(device).then(|| here.left(device, address, bytes, owner));
        let counted = if owner == EXEMPT { None } else { here(left).flatten() };
        moves::is_moved(address, owner, counted.unwrap_or(owner));
    } else if owner != EXEMPT {
        here(|here| here.has(device).then(|| here.freed(device, address, bytes, owner)));
    }
}

/// Records that a device has no memory for so many bytes. `operator` returns the requesting operator if operators are
/// not recorded. `holders` passes on all live blocks of the device. Both must allocate nothing.
pub fn out_of_memory(
    device: u8,
    requested: u64,
    operator: impl FnOnce() -> NameId,
    holders: impl FnOnce(&mut dyn FnMut(Living)),
) {
    unless_paused(|here| {
        if !here.has(device) {
            return;
        }
        // A node works without an operator of its own.
        let innermost = here.operators.last().copied().filter(|name| *name != NameId::NONE);
        let operator = innermost.unwrap_or_else(operator);
        here.out_of_memory(device, requested, operator, holders);
    });
}

/// Records the begin of an operator, with the number that it shares with its autograd node.
pub fn operator_begins(name: NameId, node: Node) {
    unless_paused(|here| {
        if here.operators.is_empty() {
            here.now.operator = Some(here.moment());
        }
        here.operators.push(name);
        here.record(Packed::Operator(name, node));
    });
}

/// Records the begin of a node of the autograd graph.
pub fn node_begins(name: NameId, node: Node) {
    unless_paused(|here| {
        here.operators.push(NameId::NONE);
        here.record(Packed::Node(name, node));
    });
}

/// Records the end of the operator or node that began last.
pub fn ends() {
    unless_paused(|here| {
        here.operators.pop();
        here.record(Packed::Ends);
    });
}
