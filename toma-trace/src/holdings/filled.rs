//! Storages that fill a device at one moment.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use super::category::Category;
use super::inventory::shapes;
use super::item::of_several;
use super::listed::tuple;
use super::names::Catalog;
use crate::place::Place;
use crate::sizes::Size;
use crate::tables::Trace;
use crate::tick::Tick;

/// Storages that fill a device at one moment, the largest first.
///
/// Holdings are plain data, from a trace or from the storages that a program found alive. Storages of one name and
/// category are one row, and the rows add up to the allocated bytes.
///
/// ```
/// use toma_trace::Place;
/// use toma_trace::holdings::{Category, Holding, Holdings};
///
/// let weight = Holding::new("weight", Category::Parameter, 4 << 20);
/// let product = Holding::new("mm @ src/net.rs:42", Category::Activation, 1 << 20);
/// let holdings = Holdings::new(Place::device("cuda", 0), [weight, product.clone(), product]);
///
/// assert_eq!(holdings.by_category()[&Category::Activation], 2 << 20);
/// assert_eq!(
///     holdings.asked(8 << 20, "mm @ src/net.rs:43").to_string(),
///     "\
/// mm @ src/net.rs:43 asked for 8.00M
/// cuda:0 holds 6.00M: 4.00M parameter, 2.00M activation
///   4.00M  parameter   weight
///   2.00M  activation  mm @ src/net.rs:42 (2 storages)
/// "
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holdings {
    place: Place,
    held: Vec<Holding>,
    heading: Option<Heading>,
}

/// The first line of the display.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Heading {
    Asked { bytes: u64, by: String },
    Above { bound: u64 },
}

/// Storages of one name.
///
/// ```
/// use toma_trace::holdings::{Category, Holding, Holdings};
/// use toma_trace::Place;
///
/// let row = Holding::new("mm @ src/net.rs:42", Category::Activation, 100);
/// let holdings = Holdings::new(Place::HOST, [row.clone(), row]);
/// assert_eq!((holdings.held()[0].storages, holdings.held()[0].bytes), (2, 200));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holding {
    /// Name of the storages.
    pub name: String,
    /// Use of the storages.
    pub category: Category,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Number of storages.
    pub storages: usize,
}

impl Holding {
    /// Creates a row of one storage.
    #[must_use]
    pub fn new(name: &str, category: Category, bytes: u64) -> Self {
        Self { name: name.to_owned(), category, bytes, storages: 1 }
    }
}

impl Holdings {
    /// Creates holdings from the storages that were found alive in a place.
    #[must_use]
    pub fn new(place: Place, held: impl IntoIterator<Item = Holding>) -> Self {
        let mut rows = BTreeMap::<(Category, String), (u64, usize)>::new();
        for held in held {
            let row = rows.entry((held.category, held.name)).or_default();
            row.0 += held.bytes;
            row.1 += held.storages;
        }
        let held = rows.into_iter();
        let mut held: Vec<_> = held
            .map(|((category, name), (bytes, storages))| Holding { name, category, bytes, storages })
            .collect();
        held.sort_by_key(|held| Reverse(held.bytes));
        Self { place, held, heading: None }
    }

    /// Returns the storages that are alive in a place just after the event of a tick.
    #[must_use]
    pub fn at(trace: &Trace, catalog: &Catalog, place: &Place, tick: Tick) -> Self {
        let holders = trace.holders(place, tick).into_iter();
        let held = holders.map(|holder| {
            Holding::new(catalog.name(holder.storage), catalog.category(holder.storage), holder.bytes)
        });
        Self::new(place.clone(), held)
    }

    /// Returns the storages that are alive in a place when it has the most bytes.
    #[must_use]
    pub fn at_peak(trace: &Trace, catalog: &Catalog, place: &Place) -> Self {
        Self::at(trace, catalog, place, trace.live(place).peak().tick)
    }

    /// Adds a heading: so many more bytes were requested at that moment, by that operator or line.
    #[must_use]
    pub fn asked(self, bytes: u64, by: &str) -> Self {
        Self { heading: Some(Heading::Asked { bytes, by: by.to_owned() }), ..self }
    }

    /// Returns the storages born in a trace that are alive when they have the most bytes in a place. Storages from
    /// before the trace are left out, and freeing them makes no room.
    ///
    /// Names end with the shape in which a storage was made.
    #[must_use]
    pub fn born_at_peak(trace: &Trace, catalog: &Catalog, place: &Place) -> Self {
        let peak = trace.live_born(place).peak();
        let shapes = shapes(trace);
        let born = trace.blocks().filter(|(_, block)| block.birth.is_some() && block.place == *place);
        let alive = born.filter(|(_, block)| block.is_alive(peak.tick));
        let held = alive.map(|(storage, block)| {
            let shape = shapes.get(&storage).map(|shape| format!(" {}", tuple(shape))).unwrap_or_default();
            let name = format!("{}{shape}", catalog.name(storage));
            Holding::new(&name, catalog.category(storage), block.bytes)
        });
        Self::new(place.clone(), held)
    }

    /// Adds a heading: the peak should have been at most so many bytes.
    #[must_use]
    pub fn above(self, bound: u64) -> Self {
        Self { heading: Some(Heading::Above { bound }), ..self }
    }

    /// Returns every row, the largest first.
    #[must_use]
    pub fn held(&self) -> &[Holding] {
        &self.held
    }

    /// Returns the bytes of all rows.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.held.iter().map(|held| held.bytes).sum()
    }

    /// Returns the bytes of each category that has any.
    #[must_use]
    pub fn by_category(&self) -> BTreeMap<Category, u64> {
        let mut sums = BTreeMap::new();
        for held in self.held.iter().filter(|held| held.bytes > 0) {
            *sums.entry(held.category).or_default() += held.bytes;
        }
        sums
    }
}

impl Heading {
    fn write(&self, held: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked { bytes, by } => writeln!(f, "{by} asked for {}", Size::of(*bytes)),
            Self::Above { bound } => {
                let [shown, most] = [held, *bound].map(Size::of);
                writeln!(f, "peak of {shown} ({held} bytes): must be at most {most} ({bound} bytes)")
            }
        }
    }
}

/// Number of rows that are shown; `{:#}` shows all.
const SHOWN: usize = 10;

impl fmt::Display for Holdings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(heading) = &self.heading {
            heading.write(self.bytes(), f)?;
        }
        let mut sums: Vec<_> = self.by_category().into_iter().collect();
        sums.sort_by_key(|(_, bytes)| Reverse(*bytes));
        let sums: Vec<_> = sums.iter().map(|(it, bytes)| format!("{} {it}", Size::of(*bytes))).collect();
        let colon = if sums.is_empty() { "" } else { ": " };
        let of_it = if matches!(self.heading, Some(Heading::Above { .. })) { " of it" } else { "" };
        let bytes = Size::of(self.bytes());
        writeln!(f, "{} holds {bytes}{of_it}{colon}{}", self.place, sums.join(", "))?;
        let shown = if f.alternate() { self.held.len() } else { SHOWN.min(self.held.len()) };
        let (shown, others) = self.held.split_at(shown);
        let size = shown.iter().map(|held| Size::of(held.bytes).to_string().len()).max().unwrap_or(0);
        let category = shown.iter().map(|held| held.category.name().len()).max().unwrap_or(0);
        for Holding { name, category: it, bytes, storages } in shown {
            let name = of_several(name, *storages);
            writeln!(f, "  {:>size$}  {it:<category$}  {name}", Size::of(*bytes))?;
        }
        if !others.is_empty() {
            let bytes = others.iter().map(|held| held.bytes).sum();
            let plural = if others.len() == 1 { "" } else { "s" };
            writeln!(f, "  {:>size$}  in {} other{plural}", Size::of(bytes), others.len())?;
        }
        Ok(())
    }
}
