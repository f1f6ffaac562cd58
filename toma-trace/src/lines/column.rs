//! Values in the columns of a table of lines.

use toma_core::marks::Column;

use super::rows::{Figures, Row};
use crate::sizes::Size;

/// True if the column has a value for each device.
pub(super) const fn is_of_device(column: Column) -> bool {
    !matches!(column, Column::Hits | Column::Time)
}

/// Returns the value in one row, for one device.
pub(super) fn value(column: Column, row: &Row, figures: Figures) -> String {
    let size = |bytes| Size::of(bytes).to_string();
    match column {
        Column::Peak => size(figures.peak),
        Column::Reserved => size(figures.reserved),
        Column::Rise => size(figures.rise),
        Column::Current => size(figures.current),
        Column::Allocated => size(figures.allocated),
        Column::Freed => size(figures.freed),
        Column::Net => Size(figures.net()).to_string(),
        Column::Kept => size(figures.kept),
        Column::Fetched => size(figures.fetched),
        Column::Offloaded => size(figures.offloaded),
        Column::Backward => size(figures.backward),
        Column::Hits => row.hits.to_string(),
        Column::Ooms => figures.ooms.to_string(),
        Column::Time => format!("{:.2?}", row.time),
    }
}
