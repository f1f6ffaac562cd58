//! Rows of an inventory: one for each storage, and rows for memory without a named tensor.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use toma_trace::Place;
use toma_trace::holdings::{Inventory, Item};

use super::look::Seen;
use crate::ffi::{self, DeviceId};
use crate::memory::cpu;
use crate::offload;

/// Identity of memory, which several tensors may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum MemoryId {
    /// A block of the counting allocator, by its address.
    Counted(u64),
    /// Other memory, by its address.
    Memory(u64),
    /// A storage without memory, by its identity.
    Storage(u64),
}

/// Blocks of the counting allocator, by their addresses.
type Blocks = BTreeMap<u64, u64>;

/// Returns the rows of `device`, or else of the host and all devices on which tensors were seen.
pub(super) fn inventory(
    mut seen: Vec<Seen>,
    device: Option<DeviceId>,
    names: &BTreeMap<u64, String>,
) -> Inventory {
    let host = DeviceId::of(tch::Device::Cpu);
    let mut devices: Vec<_> = seen.iter().map(|seen| seen.memory.device).chain(device).collect();
    if device.is_none() {
        devices.push(host);
    }
    devices.sort_by_key(|device| device.numbers());
    devices.dedup();
    let mut blocks = offload::unmoved(|| {
        seen.iter_mut().for_each(Seen::look_again);
        if devices.contains(&host) { blocks() } else { Blocks::new() }
    });
    let allocated = blocks.values().sum();
    let mut items = named(seen, &mut blocks);
    items.extend(by_address(names, &mut blocks));
    let mut inventory = Inventory::new(items);
    for device in devices {
        let place = device.place();
        inventory = if device != host {
            with_rest(inventory, &place, device)
        } else if cpu::is_counting() {
            inventory.unnamed(&place, blocks.values().copied()).allocated(&place, allocated)
        } else {
            inventory
        };
    }
    inventory
}

/// Returns the live blocks; none if nothing is counted.
fn blocks() -> Blocks {
    let mut blocks = Blocks::new();
    ffi::each_cpu_block(|block| {
        blocks.insert(block.address, block.bytes);
    });
    blocks
}

/// Makes one row of all blocks with the same name.
fn by_address(names: &BTreeMap<u64, String>, blocks: &mut Blocks) -> impl Iterator<Item = Item> {
    let mut rows = BTreeMap::<&str, (u64, usize)>::new();
    for (address, name) in names {
        if let Some(bytes) = blocks.remove(address) {
            let row = rows.entry(name).or_default();
            *row = (row.0 + bytes, row.1 + 1);
        }
    }
    rows.into_iter().map(|(name, (bytes, storages))| Item::block(&Place::HOST, name, bytes, storages))
}

/// Adds the unnamed bytes of a device, unless its allocator keeps no statistics.
fn with_rest(inventory: Inventory, place: &Place, device: DeviceId) -> Inventory {
    let Ok(stats) = ffi::device_stats(device) else { return inventory };
    let rest = stats.allocated_bytes.saturating_sub(inventory.used_bytes(place));
    let rest = Some(rest).filter(|rest| *rest > 0);
    inventory.unnamed(place, rest).allocated(place, stats.allocated_bytes)
}

/// Makes a row for each storage, in the order of naming, and removes their blocks from `blocks`.
fn named(seen: Vec<Seen>, blocks: &mut Blocks) -> Vec<Item> {
    let mut storages = Vec::<(MemoryId, Vec<Seen>)>::new();
    let mut known = HashMap::new();
    for seen in seen {
        let id = memory_id(&seen, blocks);
        let index = *known.entry((seen.place.clone(), id)).or_insert(storages.len());
        if index == storages.len() {
            storages.push((id, Vec::new()));
        }
        storages[index].1.push(seen);
    }
    storages.into_iter().map(|(id, seen)| item(id, seen, blocks)).collect()
}

fn memory_id(seen: &Seen, blocks: &Blocks) -> MemoryId {
    let data = seen.memory.data;
    if data == 0 {
        return MemoryId::Storage(seen.memory.storage);
    }
    // Memory that is lent from within a block belongs to that block.
    let before = blocks.range(..=data).next_back().filter(|_| seen.place == Place::HOST);
    match before {
        Some((address, bytes)) if data - address < *bytes => MemoryId::Counted(*address),
        _ => MemoryId::Memory(data),
    }
}

/// Makes the row of a storage, named after its tensor with the lowest rank that begins first.
fn item(id: MemoryId, mut seen: Vec<Seen>, blocks: &mut Blocks) -> Item {
    let offset = |seen: &Seen| {
        let begin = if let MemoryId::Counted(address) = id { address } else { seen.memory.data };
        seen.memory.offset + (seen.memory.data - begin) / seen.memory.element_bytes.max(1)
    };
    seen.sort_by_key(|seen| (seen.rank, offset(seen), Reverse(seen.elements())));
    let lent = seen.iter().map(|seen| seen.memory.bytes).max().unwrap_or(0);
    let bytes = if let MemoryId::Counted(address) = id { blocks.remove(&address) } else { None };
    let owner = &seen[0];
    let outside = seen.iter().map(|seen| seen.outside_bytes).max().unwrap_or(0);
    let item = Item::new(&owner.place, &owner.name, &owner.shape, bytes.unwrap_or(lent)).outside(outside);
    // Memory lent on another device cannot be distinguished from its allocator's.
    let is_lent = bytes.is_none() && outside == 0;
    let item = if is_lent && owner.place == Place::HOST { item.uncounted() } else { item };
    let item = match &owner.gradient_of {
        Some(variable) => item.gradient_of(variable),
        None => item,
    };
    seen[1..].iter().fold(item, |item, seen| item.alias(&seen.name, &seen.shape, offset(seen)))
}

#[cfg(test)]
mod tests {
    use super::super::look::Rank;
    use super::*;
    use crate::ffi::TensorMemory;

    /// Two floats at `offset` elements of a storage that begins at `data`.
    fn seen(name: &str, data: u64, offset: u64) -> Seen {
        let device = DeviceId::of(tch::Device::Cpu);
        Seen {
            rank: Rank::Other,
            name: name.to_owned(),
            gradient_of: None,
            shape: vec![2],
            place: Place::HOST,
            memory: TensorMemory {
                device,
                layout: 0,
                storage: data,
                data,
                bytes: 40,
                element_bytes: 4,
                offset,
            },
            outside_bytes: 0,
            tensor: tch::Tensor::new(),
        }
    }

    #[test]
    fn memory_lent_from_within_a_block_is_of_it_and_memory_behind_it_is_not() {
        let mut blocks = Blocks::from([(1000, 80), (1080, 20)]);
        let lent =
            [seen("last", 1040, 8), seen("first", 1040, 0), seen("ours", 1000, 0), seen("behind", 1100, 0)];
        let items = named(lent.into(), &mut blocks);
        assert_eq!(blocks, Blocks::from([(1080, 20)]));
        let ours = Item::new(&Place::HOST, "ours", &[2], 80).alias("first", &[2], 10).alias("last", &[2], 18);
        assert_eq!(items, [ours, Item::new(&Place::HOST, "behind", &[2], 40).uncounted()]);
    }
}
