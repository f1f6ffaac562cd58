//! Rows beside the text of their lines.

use std::collections::BTreeMap;
use std::fmt;

use comfy_table::{CellAlignment, Table, presets};

use super::column::Column;
use super::rows::{DeviceId, Figures, Row, Rows};
use super::sources::{LineId, Source, SourceLine, Sources};
use crate::place::Place;
use crate::sizes::Size;

/// What each line of each function did to memory, in the order of the source.
///
/// It is shown as a table. The line at which a function begins shows what was there when it was called; lines that
/// never ran are blank.
///
/// ```
/// # mod toma { pub use toma_trace as trace; }
/// use std::sync::Arc;
/// use toma::trace::Place;
/// use toma::trace::lines::{Column, Lines, Rows, Source, Sources, Stack};
///
/// let mut sources = Sources::new();
/// let step = Source::new("step", "src/net.rs").line(9, "fn step() {").line(10, "    let x = ones(384);");
/// let first = sources.add(step.line(11, "    if empty() {").line(12, "        return;"));
/// let rows = Arc::new(Rows::new(&[(Place::HOST, 1000)]));
/// let host = rows.device(&Place::HOST).expect("a device of these rows");
/// let mut stack = Stack::new(&rows);
/// stack.enter(first);
/// stack.mark(first.nth(1));
/// stack.allocated(host, 1536);
/// stack.mark(first.nth(2));
/// stack.leave();
///
/// let lines = Lines::new(&sources, &rows).columns([Column::Peak, Column::Rise, Column::Hits]);
/// assert_eq!(
///     lines.to_string(),
///     "\
/// ### step (src/net.rs)
///
///      peak   rise  hits  line  code
///  1000.00B  0.00B     0     9  fn step() {
///     2.48K  1.50K     1    10      let x = ones(384);
///     2.48K  0.00B     1    11      if empty() {
///                           12          return;
/// "
/// );
/// ```
#[derive(Clone, Debug)]
pub struct Lines {
    functions: Vec<Function>,
    places: BTreeMap<Place, DeviceId>,
    outside: Row,
    columns: Option<Vec<Column>>,
}

/// A function, and the rows of those of its lines that ran.
#[derive(Clone, Debug)]
struct Function {
    first: LineId,
    source: Source,
    rows: BTreeMap<usize, Row>,
    /// Operators of a line, with their names.
    operators: BTreeMap<usize, Vec<(String, Row)>>,
}

impl Lines {
    /// The rows there are so far, beside the text of their functions.
    #[must_use]
    pub fn new(sources: &Sources, rows: &Rows) -> Self {
        let by_line = rows.by_line();
        let mut functions: Vec<_> =
            sources.iter().map(|(first, source)| Function::new(first, source, &by_line)).collect();
        functions.sort_by(|a, b| a.order().cmp(&b.order()));
        let places = rows.devices().map(|(device, place)| (place.clone(), device)).collect();
        Self { functions, places, outside: rows.outside(), columns: None }
    }

    /// The same, with the lines of these functions that never ran and the texts they have there.
    ///
    /// It is for tables of traces, which know only what ran. Functions are the same by name and file.
    #[must_use]
    pub fn sources(mut self, sources: &Sources) -> Self {
        for function in &mut self.functions {
            let is_it = |source: &&Source| {
                (&source.name, &source.file) == (&function.source.name, &function.source.file)
            };
            if let Some(source) = sources.iter().map(|(_, source)| source).find(is_it) {
                function.set_source(source);
            }
        }
        self
    }

    /// Only functions of that name.
    #[must_use]
    pub fn function(mut self, name: &str) -> Self {
        self.functions.retain(|function| function.is_called(name));
        self
    }

    /// These columns, in this order. Without a word they are the peak, and the reserved bytes where there are any.
    #[must_use]
    pub fn columns(self, columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: Some(columns.into_iter().collect()), ..self }
    }

    /// Only this device. Otherwise all have columns on which a byte was ever seen.
    #[must_use]
    pub fn device(mut self, place: &Place) -> Self {
        self.places.retain(|known, _| known == place);
        self
    }

    /// The row of a line, by its number in the file, if it ran in a function of that name.
    #[must_use]
    pub fn row(&self, function: &str, number: u32) -> Option<&Row> {
        let functions = self.functions.iter().filter(|it| it.is_called(function));
        functions.flat_map(Function::lines).find(|(line, row)| line.number == number && row.is_some())?.1
    }

    /// The number in the file of the first line with this text, in a function of that name.
    #[must_use]
    pub fn number(&self, function: &str, text: &str) -> Option<u32> {
        let functions = self.functions.iter().filter(|it| it.is_called(function));
        let found = functions.flat_map(Function::lines).find(|(line, _)| line.text.trim() == text)?;
        Some(found.0.number)
    }

    /// What a line did to one device, by its number in the file.
    #[must_use]
    pub fn figures(&self, function: &str, number: u32, place: &Place) -> Option<Figures> {
        self.row(function, number)?.devices.get(self.places.get(place)?).copied()
    }

    /// Each row with the position and the text of its line, and what is in no line.
    pub(super) fn positions(&self) -> Vec<(String, &str, &Row)> {
        let mut positions = Vec::new();
        for function in &self.functions {
            for (line, row) in function.lines() {
                let position = format!("{}:{}", function.source.file, line.number);
                positions.extend(row.map(|row| (position, line.text.as_str(), row)));
            }
        }
        positions.push(("no line".to_owned(), "", &self.outside));
        positions
    }

    pub(super) fn places(&self) -> impl Iterator<Item = (&Place, DeviceId)> {
        self.places.iter().map(|(place, device)| (place, *device))
    }

    /// An operator that ran in a line.
    pub(super) fn add_operator(&mut self, line: LineId, name: &str, row: Row) {
        let contains = |function: &&mut Function| {
            let lines = u32::try_from(function.source.lines.len()).unwrap_or(u32::MAX);
            function.first <= line && line < function.first.nth(lines)
        };
        if let Some(function) = self.functions.iter_mut().find(contains) {
            let index = (line.0 - function.first.0) as usize;
            function.operators.entry(index).or_default().push((name.to_owned(), row));
        }
    }

    /// The devices, and whether one is named above its columns.
    fn shown_places(&self) -> Vec<(&Place, DeviceId)> {
        let is_used = |device| self.rows().any(|row| row.devices.get(&device).is_some_and(|it| it.peak > 0));
        let used: Vec<_> = self.places().collect();
        if used.len() < 2 { used } else { used.into_iter().filter(|(_, device)| is_used(*device)).collect() }
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.functions.iter().flat_map(|function| function.rows.values())
    }

    fn shown_columns(&self) -> Vec<Column> {
        let reserves = || self.rows().any(|row| row.devices.values().any(|figures| figures.reserved > 0));
        self.columns.clone().unwrap_or_else(|| {
            let mut columns = vec![Column::Peak];
            columns.extend(reserves().then_some(Column::Reserved));
            columns
        })
    }
}

impl Function {
    fn new(first: LineId, source: &Source, by_line: &BTreeMap<LineId, Row>) -> Self {
        let of = |index: usize| by_line.get(&first.nth(u32::try_from(index).unwrap_or(u32::MAX)));
        let rows = (0..source.lines.len()).filter_map(|index| Some((index, of(index)?.clone()))).collect();
        Self { first, source: source.clone(), rows, operators: BTreeMap::new() }
    }

    /// Rows go to the line of their number; those of numbers that the source lacks are lost.
    fn set_source(&mut self, source: &Source) {
        let index = |old: usize| {
            let number = self.source.lines[old].number;
            source.lines.iter().position(|line| line.number == number)
        };
        let rows = std::mem::take(&mut self.rows).into_iter();
        self.rows = rows.filter_map(|(old, row)| Some((index(old)?, row))).collect();
        let operators = std::mem::take(&mut self.operators).into_iter();
        self.operators = operators.filter_map(|(old, rows)| Some((index(old)?, rows))).collect();
        self.source = Source { attempt: self.source.attempt.take(), ..source.clone() };
    }

    /// With its modules or without.
    fn is_called(&self, name: &str) -> bool {
        self.source.name == name || self.source.name.rsplit("::").next() == Some(name)
    }

    fn order(&self) -> (&str, Option<u32>) {
        (&self.source.file, self.source.lines.first().map(|line| line.number))
    }

    fn lines(&self) -> impl Iterator<Item = (&SourceLine, Option<&Row>)> {
        self.source.lines.iter().enumerate().map(|(index, line)| (line, self.rows.get(&index)))
    }
}

/// Which value of each row stands in one column, and what stands above it.
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
            if !column.is_of_device() {
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
        self.column.value(row, figures.copied().unwrap_or_default())
    }
}

impl Function {
    fn table(&self, shown: &[Shown]) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(shown.iter().map(|shown| shown.title.as_str()).chain(["line", "code"]));
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

/// A row of the table; the values of a line that never ran are blank.
fn cells(shown: &[Shown], row: Option<&Row>, number: &str, text: &str) -> Vec<String> {
    let values = shown.iter().map(|shown| row.map_or_else(String::new, |row| shown.value(row)));
    values.chain([number.to_owned(), text.to_owned()]).collect()
}

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.shown();
        let ran = self.functions.iter().filter(|function| !function.rows.is_empty());
        let tables: Vec<_> = ran
            .map(|function| {
                let Source { name, file, attempt, .. } = &function.source;
                let attempt = attempt.as_ref().map(|name| format!(", {name}")).unwrap_or_default();
                format!("## {name} ({file}){attempt}\n\n{}\n", function.table(&shown).trim_fmt())
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
    /// What is in no line, so that no byte is kept from sight.
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
