//! An inventory as memlab writes it.

use std::fmt;

use super::inventory::Inventory;
use super::item::Item;
use crate::sizes::Size;

impl fmt::Display for Inventory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = "-".repeat(79);
        writeln!(f, "{:<40}{:>20}{:>10}\n{rule}", "Element type", "Size", "Used MEM")?;
        let mut places: Vec<_> =
            self.items().iter().map(|item| &item.place).chain(self.allocated.keys()).collect();
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
pub(super) fn tuple(shape: &[u64]) -> String {
    match shape {
        [] => "(1,)".to_owned(),
        [only] => format!("({only},)"),
        several => format!("({})", several.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
    }
}
