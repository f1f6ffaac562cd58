//! One storage of an inventory.

use crate::place::Place;

/// A storage, named by the tensor that owns it.
///
/// ```
/// use toma_trace::Place;
/// use toma_trace::holdings::{Inventory, Item};
///
/// let weight = Item::new(&Place::HOST, "weight", &[10, 100], 4000).alias("weight.t()", &[100, 10], 0);
/// let inventory = Inventory::new([weight]);
/// assert_eq!(inventory.items()[0].bytes, 4000); // once, although two tensors share it
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item {
    /// The memory that holds the storage.
    pub place: Place,
    /// Name of the storage.
    pub name: String,
    /// Sizes of the tensor, if they are known.
    pub shape: Option<Vec<u64>>,
    /// Requested bytes, on its device.
    pub bytes: u64,
    /// Bytes that have been evicted from its device; no sum of the device includes them.
    pub outside_bytes: u64,
    /// The variable of which this is the gradient.
    pub gradient_of: Option<String>,
    /// Other tensors in the storage.
    pub aliases: Vec<Alias>,
    /// True if the allocator of its device counts it. False for memory that the program has lent, and for
    /// memory from before the allocator counted.
    pub is_counted: bool,
}

/// Another tensor that shares a storage.
///
/// ```
/// use toma_trace::Place;
/// use toma_trace::holdings::Item;
///
/// let row = Item::new(&Place::HOST, "x", &[10, 100], 4000).alias("x[1]", &[100], 100);
/// assert_eq!((&*row.aliases[0].name, row.aliases[0].offset), ("x[1]", 100));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Alias {
    /// Name of the tensor.
    pub name: String,
    /// Sizes of the tensor.
    pub shape: Vec<u64>,
    /// Offset of the tensor in the storage, in elements.
    pub offset: u64,
}

impl Item {
    /// Creates a storage of one tensor.
    #[must_use]
    pub fn new(place: &Place, name: &str, shape: &[u64], bytes: u64) -> Self {
        Self { shape: Some(shape.to_owned()), ..Self::block(place, name, bytes, 1) }
    }

    /// Creates an item of so many blocks with one name, whose tensors are unknown.
    #[must_use]
    pub fn block(place: &Place, name: &str, bytes: u64, storages: usize) -> Self {
        Self {
            place: place.clone(),
            name: of_several(name, storages),
            shape: None,
            bytes,
            outside_bytes: 0,
            gradient_of: None,
            aliases: Vec::new(),
            is_counted: true,
        }
    }

    /// Marks the storage as the gradient of a variable.
    #[must_use]
    pub fn gradient_of(self, variable: &str) -> Self {
        Self { gradient_of: Some(variable.to_owned()), ..self }
    }

    /// Adds another tensor that shares the storage and begins at so many elements.
    #[must_use]
    pub fn alias(mut self, name: &str, shape: &[u64], offset: u64) -> Self {
        self.aliases.push(Alias { name: name.to_owned(), shape: shape.to_owned(), offset });
        self.aliases.sort_by_key(|alias| alias.offset);
        self
    }

    /// Marks the storage as not counted by the allocator of its device.
    #[must_use]
    pub fn uncounted(self) -> Self {
        Self { is_counted: false, ..self }
    }

    /// Sets the bytes that have been evicted from its device.
    ///
    /// ```
    /// use toma_trace::Place;
    /// use toma_trace::holdings::{Inventory, Item};
    ///
    /// let gpu = Place::device("cuda", 0);
    /// let weight = Item::new(&gpu, "weight", &[512, 1024], 0).outside(2 << 20);
    /// let inventory = Inventory::new([weight]);
    /// assert_eq!((inventory.used_bytes(&gpu), inventory.outside_bytes(&gpu)), (0, 2 << 20));
    /// ```
    #[must_use]
    pub fn outside(self, bytes: u64) -> Self {
        Self { outside_bytes: bytes, ..self }
    }

    /// Returns the bytes that its device has allocated for it. Only CUDA's allocator rounds, to multiples of 512.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        match self.place.as_device() {
            Some(("cuda", _)) if self.is_counted => {
                self.bytes.checked_next_multiple_of(512).unwrap_or(u64::MAX)
            }
            _ => self.bytes,
        }
    }

    pub(super) fn elements(&self) -> u64 {
        let shapes = self.shape.as_deref().into_iter().chain(self.aliases.iter().map(|alias| &*alias.shape));
        shapes.map(elements).fold(0, u64::saturating_add)
    }

    /// True if a tensor in the storage has this name.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.iter().any(|alias| alias.name == name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shape.as_deref().is_some_and(|shape| elements(shape) == 0)
    }
}

/// Returns the name of storages, with their number if there are several.
pub(super) fn of_several(name: &str, storages: usize) -> String {
    if storages > 1 { format!("{name} ({storages} storages)") } else { name.to_owned() }
}

fn elements(shape: &[u64]) -> u64 {
    if shape.contains(&0) { 0 } else { shape.iter().fold(1, |elements, size| elements.saturating_mul(*size)) }
}
