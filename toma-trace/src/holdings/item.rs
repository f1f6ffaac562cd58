//! One storage of an inventory.

use crate::place::Place;

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
    /// The bytes that were asked for, on its device.
    pub bytes: u64,
    /// The bytes that have been moved off its device; those are in no sum of it.
    pub outside_bytes: u64,
    /// The variable whose gradient it is.
    pub gradient_of: Option<String>,
    /// Other tensors in the storage.
    pub aliases: Vec<Alias>,
    /// Whether the allocator of its device counts it: not what a program has lent, and what was there before it counted.
    pub is_counted: bool,
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
        Self { shape: Some(shape.to_owned()), ..Self::block(place, name, bytes, 1) }
    }

    /// So many blocks of memory of one name, of which no tensor is known.
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

    /// The same, in memory that the allocator of its device does not count.
    #[must_use]
    pub fn uncounted(self) -> Self {
        Self { is_counted: false, ..self }
    }

    /// The same, with so many bytes that have been moved off its device.
    ///
    /// ```
    /// # mod toma { pub use toma_trace as trace; }
    /// use toma::trace::Place;
    /// use toma::trace::holdings::{Inventory, Item};
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

    /// The bytes that its device has given for it. Only the allocator of CUDA rounds, to multiples of 512.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        match self.place.as_device() {
            Some(("cuda", _)) if self.is_counted => self.bytes.next_multiple_of(512),
            _ => self.bytes,
        }
    }

    pub(super) fn elements(&self) -> u64 {
        let aliases: u64 = self.aliases.iter().map(|alias| elements(&alias.shape)).sum();
        self.shape.as_deref().map_or(0, elements) + aliases
    }

    /// Whether it is the name of a tensor in it.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.iter().any(|alias| alias.name == name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shape.as_deref().is_some_and(|shape| elements(shape) == 0)
    }
}

/// The name of storages, with their number where there are several.
pub(super) fn of_several(name: &str, storages: usize) -> String {
    if storages > 1 { format!("{name} ({storages} storages)") } else { name.to_owned() }
}

fn elements(shape: &[u64]) -> u64 {
    shape.iter().product()
}
