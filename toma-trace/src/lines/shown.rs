//! Display of a table of lines.

use std::fmt;

use comfy_table::{CellAlignment, Table, presets};
use toma_core::marks::Column;

use super::column::{is_of_device, value};
use super::rows::{DeviceId, Figures, Row};
use super::sources::Source;
use super::table::{Function, Lines};
use crate::place::Place;
use crate::sizes::Size;

/// The value of each row in one column, with the column's title.
struct Shown {
    column: Column,
    device: Option<DeviceId>,
    title: String,
}

impl Lines {
    fn shown(&self) -> Vec<Shown> {
        let places = self.shown_places();
        let mut shown = Vec::new();
        for column in self.shown_columns() {
            if !is_of_device(column) {
                shown.push(Shown { column, device: None, title: column.to_string() });
                continue;
            }
            for &(place, device) in &places {
                let title = title(column, place, places.len());
                shown.push(Shown { column, device: Some(device), title });
            }
        }
        shown
    }
}

fn title(column: Column, place: &Place, places: usize) -> String {
    if places == 1 { column.to_string() } else { format!("{place} {column}") }
}

impl Shown {
    fn value(&self, row: &Row) -> String {
        let figures = self.device.and_then(|device| row.devices.get(&device));
        value(self.column, row, figures.copied().unwrap_or_default())
    }
}

impl Source {
    /// Returns the titles of its numbers and texts. Attempts and phases are in no file.
    fn headings(&self) -> [&str; 2] {
        if self.file.is_empty() { ["no.", self.name.trim_end_matches('s')] } else { ["line", "code"] }
    }
}

impl Function {
    /// Returns the end of the title: the attempts in which it was called, and their outcomes.
    fn attempt(&self) -> String {
        let Some(attempt) = &self.source.attempt else { return String::new() };
        let colon = if self.outcomes.is_empty() { "" } else { ": " };
        format!(", {attempt}{colon}{}", self.outcomes)
    }

    fn table(&self, shown: &[Shown]) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(shown.iter().map(|shown| shown.title.as_str()).chain(self.source.headings()));
        for (index, (line, row)) in self.lines().enumerate() {
            table.add_row(cells(shown, row, &line.number.to_string(), &line.text));
            for (name, row) in self.operators.get(&index).into_iter().flatten() {
                let indent = &line.text[..line.text.len() - line.text.trim_start().len()];
                table.add_row(cells(shown, Some(row), "", &format!("{indent}    {name}")));
            }
        }
        for column in table.column_iter_mut().take(shown.len() + 1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }
}

/// Returns a row of the table; the values of a line that never ran are blank.
fn cells(shown: &[Shown], row: Option<&Row>, number: &str, text: &str) -> Vec<String> {
    let values = shown.iter().map(|shown| row.map_or_else(String::new, |row| shown.value(row)));
    values.chain([number.to_owned(), text.to_owned()]).collect()
}

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(absent) = &self.absent {
            return writeln!(f, "{absent}");
        }
        let shown = self.shown();
        let ran = self.functions.iter().filter(|function| !function.rows.is_empty());
        let tables: Vec<_> = ran
            .map(|function| {
                let (Source { name, file, .. }, attempt) = (&function.source, function.attempt());
                let file = if file.is_empty() { String::new() } else { format!(" ({file})") };
                format!("## {name}{file}{attempt}\n\n{}\n", function.table(&shown).trim_fmt())
            })
            .collect();
        if tables.is_empty() {
            f.write_str("no profiled function was called\n")?;
        }
        f.write_str(&tables.join("\n"))?;
        self.write_outside(f)
    }
}

impl Lines {
    /// Writes the bytes that are in no line, so that the table accounts for every byte.
    fn write_outside(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, device) in &self.places {
            let figures = self.outside.devices.get(device).copied().unwrap_or_default();
            if figures.allocated > 0 || figures.freed > 0 {
                let Figures { allocated, freed, kept, .. } = figures;
                let [allocated, freed, kept] = [allocated, freed, kept].map(Size::of);
                writeln!(f, "\nin no line, on {place}: {allocated} allocated, {freed} freed, {kept} kept")?;
            }
        }
        Ok(())
    }
}
