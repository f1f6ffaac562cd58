//! An inventory in memlab's format.

use std::fmt;

use super::inventory::Inventory;
use super::item::Item;
use crate::place::Place;
use crate::sizes::Size;

impl fmt::Display for Inventory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_outside = self.items().iter().any(|item| item.outside_bytes > 0);
        let rule = "-".repeat(if has_outside { 89 } else { 79 });
        let column = if has_outside { "   Outside" } else { "" };
        writeln!(f, "{:<40}{:>20}{:>10}{column}\n{rule}", "Element type", "Size", "Used MEM")?;
        let mut places: Vec<_> =
            self.items().iter().map(|item| &item.place).chain(self.allocated.keys()).collect();
        places.sort();
        places.dedup();
        for place in places {
            writeln!(f, "Storage on {place}")?;
            self.on(place).try_for_each(|item| item.write(f))?;
            let older = self.older_bytes(place);
            if older > 0 {
                row(f, "older than the recording", "", [older, 0])?;
            }
            let used = Size::of(self.used_bytes(place));
            writeln!(f, "{rule}\nTotal Tensors: {} \tUsed Memory: {used}", self.total(place))?;
            let outside = self.outside_bytes(place);
            if outside > 0 {
                writeln!(f, "Outside of {place}: {}", Size::of(outside))?;
            }
            if let Some(bytes) = self.allocated.get(place) {
                writeln!(f, "The allocated memory on {place}: {}", Size::of(*bytes))?;
            }
            writeln!(f, "{rule}")?;
        }
        Ok(())
    }
}

impl Inventory {
    /// Returns the number of elements, or `unknown` if only names of blocks are known.
    fn total(&self, place: &Place) -> String {
        let lacks_shapes = self.on(place).all(|item| item.shape.is_none());
        if lacks_shapes && self.used_bytes(place) > 0 {
            return "unknown".to_owned();
        }
        self.elements(place).to_string()
    }
}

impl Item {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = self.shape.as_deref().map_or_else(String::new, tuple);
        row(f, &self.name, &shape, [self.used_bytes(), self.outside_bytes])?;
        if f.alternate() {
            for alias in &self.aliases {
                row(f, &format!("{}(->{})", alias.name, self.name), &tuple(&alias.shape), [0, 0])?;
            }
        }
        Ok(())
    }
}

/// Writes a row with the bytes on the device and the evicted bytes.
fn row(f: &mut fmt::Formatter<'_>, name: &str, shape: &str, [used, outside]: [u64; 2]) -> fmt::Result {
    write!(f, "{name:<40}{shape:>20}{:>10}", Size::of(used))?;
    if outside > 0 { writeln!(f, "{:>10}", Size::of(outside)) } else { writeln!(f) }
}

/// Formats a shape as Python does; a scalar as one element.
pub(super) fn tuple(shape: &[u64]) -> String {
    match shape {
        [] => "(1,)".to_owned(),
        [only] => format!("({only},)"),
        several => format!("({})", several.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
    }
}
