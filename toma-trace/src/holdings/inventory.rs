//! Living tensors one by one, in the layout of `pytorch_memlab`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::names::Catalog;
use crate::place::Place;
use crate::sizes::Size;
use crate::tables::{Access, StorageId, Tick, Trace};

/// The storages that are alive, with the tensors that share each.
///
/// The largest come first; a gradient follows its variable. With `{:#}` other names of a storage follow it, by their
/// place within.
///
/// ```
/// # mod toma { pub use toma_trace as trace; }
/// use toma::trace::Place;
/// use toma::trace::holdings::{Inventory, Item};
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
    allocated: BTreeMap<Place, u64>,
}

/// A storage, named by the tensor that owns it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item {
    /// Which memory it lies in.
    pub place: Place,
    /// What it is called.
    pub name: String,
    /// The sizes of the tensor, if they are known.
    pub shape: Option<Vec<u64>>,
    /// The bytes that were asked for.
    pub bytes: u64,
    /// The variable whose gradient it is.
    pub gradient_of: Option<String>,
    /// Other tensors in the storage.
    pub aliases: Vec<Alias>,
}

/// Another tensor that shares a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Alias {
    /// What it is called.
    pub name: String,
    /// The sizes of the tensor.
    pub shape: Vec<u64>,
    /// Where it begins in the storage, in elements.
    pub offset: u64,
}

impl Item {
    /// A storage that one tensor has.
    #[must_use]
    pub fn new(place: &Place, name: &str, shape: &[u64], bytes: u64) -> Self {
        Self {
            place: place.clone(),
            name: name.to_owned(),
            shape: Some(shape.to_owned()),
            bytes,
            gradient_of: None,
            aliases: Vec::new(),
        }
    }

    /// The same, as the gradient of a variable.
    #[must_use]
    pub fn gradient_of(self, variable: &str) -> Self {
        Self { gradient_of: Some(variable.to_owned()), ..self }
    }

    /// The same, shared with another tensor, which begins at so many elements.
    #[must_use]
    pub fn alias(mut self, name: &str, shape: &[u64], offset: u64) -> Self {
        self.aliases.push(Alias { name: name.to_owned(), shape: shape.to_owned(), offset });
        self.aliases.sort_by_key(|alias| alias.offset);
        self
    }

    /// The bytes that its device has given for it. Only CUDA rounds, to multiples of 512.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        match self.place.as_device() {
            Some(("cuda", _)) => self.bytes.next_multiple_of(512),
            _ => self.bytes,
        }
    }

    fn elements(&self) -> u64 {
        let aliases: u64 = self.aliases.iter().map(|alias| elements(&alias.shape)).sum();
        self.shape.as_deref().map_or(0, elements) + aliases
    }

    fn is_empty(&self) -> bool {
        self.shape.as_deref().is_some_and(|shape| elements(shape) == 0)
    }
}

fn elements(shape: &[u64]) -> u64 {
    shape.iter().product()
}

impl Inventory {
    /// These storages; those of tensors without elements are left out.
    #[must_use]
    pub fn new(items: impl IntoIterator<Item = Item>) -> Self {
        let items: Vec<_> = items.into_iter().filter(|item| !item.is_empty()).collect();
        Self { items: in_order(items), allocated: BTreeMap::new() }
    }

    /// What is alive in a trace once the event of a tick has happened.
    #[must_use]
    pub fn at(trace: &Trace, catalog: &Catalog, tick: Tick) -> Self {
        let alive = trace.blocks().filter(|(_, block)| block.is_alive(tick));
        let shapes = shapes(trace);
        Self::new(alive.map(|(storage, block)| Item {
            place: block.place.clone(),
            name: catalog.name(storage).to_owned(),
            shape: shapes.get(&storage).map(|shape| shape.to_vec()),
            bytes: block.bytes,
            gradient_of: None,
            aliases: Vec::new(),
        }))
    }

    /// The same, with what the allocator of a device says. What it holds more is a row of its own.
    #[must_use]
    pub fn allocated(mut self, place: &Place, bytes: u64) -> Self {
        self.allocated.insert(place.clone(), bytes);
        self
    }

    /// Only this device.
    #[must_use]
    pub fn device(mut self, place: &Place) -> Self {
        self.items.retain(|item| item.place == *place);
        self.allocated.retain(|known, _| known == place);
        self
    }

    /// The storages in the order of the table.
    #[must_use]
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The elements of all tensors on a device: what shares a storage counts each time.
    #[must_use]
    pub fn elements(&self, place: &Place) -> u64 {
        self.on(place).map(Item::elements).sum()
    }

    /// The bytes of all storages on a device, or what its allocator holds if that is more.
    #[must_use]
    pub fn used_bytes(&self, place: &Place) -> u64 {
        self.listed_bytes(place) + self.older_bytes(place)
    }

    fn on(&self, place: &Place) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(move |item| item.place == *place)
    }

    fn listed_bytes(&self, place: &Place) -> u64 {
        self.on(place).map(Item::used_bytes).sum()
    }

    /// What the allocator holds beside the storages.
    fn older_bytes(&self, place: &Place) -> u64 {
        self.allocated.get(place).map_or(0, |bytes| bytes.saturating_sub(self.listed_bytes(place)))
    }
}

/// The shape in which each storage was made, or else first seen.
fn shapes(trace: &Trace) -> HashMap<StorageId, &[u64]> {
    let mut shapes = HashMap::new();
    for operand in trace.uses().iter().map(|used| &used.operand) {
        let seen = shapes.entry(operand.storage).or_insert((false, &operand.shape[..]));
        if operand.access == Access::Makes && !seen.0 {
            *seen = (true, &operand.shape);
        }
    }
    shapes.into_iter().map(|(storage, (_, shape))| (storage, shape)).collect()
}

/// By device, then by size, with each gradient behind its variable.
fn in_order(items: Vec<Item>) -> Vec<Item> {
    let (mut gradients, mut others): (Vec<_>, Vec<_>) =
        items.into_iter().partition(|item| item.gradient_of.is_some());
    others.sort_by(|a, b| (&a.place, Reverse(a.bytes)).cmp(&(&b.place, Reverse(b.bytes))));
    let mut ordered = Vec::new();
    for item in others {
        let is_its = |gradient: &mut Item| gradient.gradient_of.as_ref() == Some(&item.name);
        let its: Vec<_> = gradients.extract_if(.., is_its).collect();
        ordered.push(item);
        ordered.extend(its);
    }
    ordered.extend(gradients);
    ordered.sort_by(|a, b| a.place.cmp(&b.place));
    ordered
}

impl fmt::Display for Inventory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = "-".repeat(79);
        writeln!(f, "{:<40}{:>20}{:>10}\n{rule}", "Element type", "Size", "Used MEM")?;
        let mut places: Vec<_> =
            self.items.iter().map(|item| &item.place).chain(self.allocated.keys()).collect();
        places.sort();
        places.dedup();
        for place in places {
            writeln!(f, "Storage on {place}")?;
            self.on(place).try_for_each(|item| item.write(f))?;
            let older = self.older_bytes(place);
            if older > 0 {
                row(f, "older than the recording", "", older)?;
            }
            let used = Size::of(self.used_bytes(place));
            writeln!(f, "{rule}\nTotal Tensors: {} \tUsed Memory: {used}", self.elements(place))?;
            if let Some(bytes) = self.allocated.get(place) {
                writeln!(f, "The allocated memory on {place}: {}", Size::of(*bytes))?;
            }
            writeln!(f, "{rule}")?;
        }
        Ok(())
    }
}

impl Item {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        row(f, &self.name, &self.shape.as_deref().map_or_else(String::new, tuple), self.used_bytes())?;
        if f.alternate() {
            for alias in &self.aliases {
                row(f, &format!("{}(->{})", alias.name, self.name), &tuple(&alias.shape), 0)?;
            }
        }
        Ok(())
    }
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, shape: &str, bytes: u64) -> fmt::Result {
    writeln!(f, "{name:<40}{shape:>20}{:>10}", Size::of(bytes))
}

/// A shape as Python writes it; a scalar as one element.
fn tuple(shape: &[u64]) -> String {
    match shape {
        [] => "(1,)".to_owned(),
        [only] => format!("({only},)"),
        several => format!("({})", several.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
    }
}
