//! Live tensors one by one, in the layout of `pytorch_memlab`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::item::Item;
use super::names::Catalog;
use crate::place::Place;
use crate::sizes::Size;
use crate::tables::{Access, StorageId, Trace};
use crate::tick::Tick;

/// The live storages, with the tensors that share each.
///
/// The largest come first; a gradient follows its variable. With `{:#}` other names of a storage follow it, by their
/// offset in the storage. If storages have been evicted from their device, a column shows the evicted bytes of each; no
/// sum includes them.
///
/// ```
/// use toma_trace::Place;
/// use toma_trace::holdings::{Inventory, Item};
///
/// let gpu = Place::device("cuda", 0);
/// let weight = Item::new(&gpu, "weight", &[512, 1024], 2 << 20);
/// let loss = Item::new(&gpu, "loss", &[], 4);
/// assert_eq!(
///     Inventory::new([loss, weight]).to_string(),
///     "\
/// Element type                                            Size  Used MEM
/// -------------------------------------------------------------------------------
/// Storage on cuda:0
/// weight                                           (512, 1024)     2.00M
/// loss                                                    (1,)   512.00B
/// -------------------------------------------------------------------------------
/// Total Tensors: 524289 \tUsed Memory: 2.00M
/// -------------------------------------------------------------------------------
/// "
/// );
/// ```
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    items: Vec<Item>,
    pub(super) allocated: BTreeMap<Place, u64>,
}

impl Inventory {
    /// Creates an inventory of these storages, without those of tensors without elements.
    #[must_use]
    pub fn new(items: impl IntoIterator<Item = Item>) -> Self {
        let items: Vec<_> = items.into_iter().filter(|item| !item.is_empty()).collect();
        Self { items: in_order(items), allocated: BTreeMap::new() }
    }

    /// Returns the storages that are alive in a trace just after the event of a tick.
    #[must_use]
    pub fn at(trace: &Trace, catalog: &Catalog, tick: Tick) -> Self {
        let alive = trace.blocks().filter(|(_, block)| block.is_alive(tick));
        let shapes = shapes(trace);
        Self::new(alive.map(|(storage, block)| {
            let item = Item::block(&block.place, catalog.name(storage), block.bytes, 1);
            Item { shape: shapes.get(&storage).map(|shape| shape.to_vec()), ..item }
        }))
    }

    /// Adds blocks of which only the bytes are known. Blocks of one size are one row.
    ///
    /// ```
    /// use toma_trace::Place;
    /// use toma_trace::holdings::Inventory;
    ///
    /// let inventory = Inventory::default().unnamed(&Place::HOST, [4096, 100, 4096]);
    /// let rows: Vec<_> = inventory.items().iter().map(|item| (&*item.name, item.bytes)).collect();
    /// assert_eq!(rows, [("unnamed (2 storages of 4.00K)", 8192), ("unnamed", 100)]);
    /// ```
    #[must_use]
    pub fn unnamed(mut self, place: &Place, blocks: impl IntoIterator<Item = u64>) -> Self {
        let mut of_size = BTreeMap::<u64, u64>::new();
        for bytes in blocks {
            *of_size.entry(bytes).or_default() += 1;
        }
        self.items.extend(of_size.into_iter().map(|(bytes, storages)| {
            let name = match storages {
                1 => "unnamed".to_owned(),
                _ => format!("unnamed ({storages} storages of {})", Size::of(bytes)),
            };
            Item::block(place, &name, bytes * storages, 1)
        }));
        Self { items: in_order(self.items), ..self }
    }

    /// Adds the bytes that the allocator of a device reports. Bytes beyond the storages get a row of their own.
    #[must_use]
    pub fn allocated(mut self, place: &Place, bytes: u64) -> Self {
        self.allocated.insert(place.clone(), bytes);
        self
    }

    /// Keeps only this device.
    #[must_use]
    pub fn device(mut self, place: &Place) -> Self {
        self.items.retain(|item| item.place == *place);
        self.allocated.retain(|known, _| known == place);
        self
    }

    /// Returns the storages in the order of the table.
    #[must_use]
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Returns the elements of all tensors on a device. Tensors that share a storage all count.
    #[must_use]
    pub fn elements(&self, place: &Place) -> u64 {
        self.on(place).map(Item::elements).sum()
    }

    /// Returns the bytes of all storages on a device, plus the bytes that its allocator holds beyond those it counts.
    #[must_use]
    pub fn used_bytes(&self, place: &Place) -> u64 {
        self.on(place).map(Item::used_bytes).sum::<u64>() + self.older_bytes(place)
    }

    /// Returns the bytes of storages that have been evicted from a device.
    #[must_use]
    pub fn outside_bytes(&self, place: &Place) -> u64 {
        self.on(place).map(|item| item.outside_bytes).sum()
    }

    pub(super) fn on(&self, place: &Place) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(move |item| item.place == *place)
    }

    /// Returns the bytes that the allocator holds in addition to the storages.
    pub(super) fn older_bytes(&self, place: &Place) -> u64 {
        let counted: u64 = self.on(place).filter(|item| item.is_counted).map(Item::used_bytes).sum();
        self.allocated.get(place).map_or(0, |bytes| bytes.saturating_sub(counted))
    }
}

/// Returns the shape in which each storage was made, or else first used.
pub(super) fn shapes(trace: &Trace) -> HashMap<StorageId, &[u64]> {
    let mut shapes = HashMap::new();
    for operand in trace.uses().iter().map(|used| &used.operand) {
        let seen = shapes.entry(operand.storage).or_insert((false, &operand.shape[..]));
        if operand.access == Access::Makes && !seen.0 {
            *seen = (true, &operand.shape);
        }
    }
    shapes.into_iter().map(|(storage, (_, shape))| (storage, shape)).collect()
}

/// Sorts by device, then by size, with each gradient behind its variable.
fn in_order(items: Vec<Item>) -> Vec<Item> {
    let (mut gradients, mut others): (Vec<_>, Vec<_>) =
        items.into_iter().partition(|item| item.gradient_of.is_some());
    let all = |item: &Item| Reverse(item.bytes + item.outside_bytes);
    others.sort_by(|a, b| (&a.place, all(a)).cmp(&(&b.place, all(b))));
    let mut ordered = Vec::new();
    for item in others {
        let is_its = |gradient: &mut Item| gradient.gradient_of.as_ref().is_some_and(|of| item.is_called(of));
        let its: Vec<_> = gradients.extract_if(.., is_its).collect();
        ordered.push(item);
        ordered.extend(its);
    }
    ordered.extend(gradients);
    ordered.sort_by(|a, b| a.place.cmp(&b.place));
    ordered
}
