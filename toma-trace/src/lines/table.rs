//! Rows next to the text of their lines.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;
use toma_core::marks::Column;

use super::rows::{DeviceId, Figures, Row, Rows};
use super::sources::{LineId, Numbered, Source, SourceLine, Sources};
use crate::place::Place;
use crate::tables::Trace;

/// The effect of each line of each function on memory, in the order of the source.
///
/// It is shown as a table. The line at which a function begins shows the levels at its call; lines that never ran are
/// blank.
///
/// ```
/// use std::sync::Arc;
/// use toma_trace::Place;
/// use toma_trace::lines::{Lines, Rows, Source, Sources, Stack};
/// use toma_core::marks::Column;
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
    /// Functions with all attempts together, until they are requested separately.
    pub(super) functions: Vec<Function>,
    /// Functions for each group of attempts.
    apart: Vec<Function>,
    pub(super) places: BTreeMap<Place, DeviceId>,
    pub(super) outside: Row,
    columns: Option<Vec<Column>>,
    /// Message about a requested function or device that does not exist.
    pub(super) absent: Option<String>,
    traced: Option<Traced>,
}

/// The trace of the rows, and the function that replays it as if CUDA's caching allocator had served it.
#[derive(Clone, Debug)]
struct Traced {
    trace: Arc<Trace>,
    as_cuda: fn(&Trace) -> Lines,
}

/// A function, and the rows of those of its lines that ran.
#[derive(Clone, Debug)]
pub(super) struct Function {
    first: LineId,
    pub(super) source: Source,
    pub(super) outcomes: String,
    pub(super) rows: BTreeMap<usize, Row>,
    /// Operators of a line, with their names.
    pub(super) operators: BTreeMap<usize, Vec<(String, Row)>>,
}

impl Lines {
    /// Creates the table of the rows so far, next to the text of their functions.
    #[must_use]
    pub fn new(sources: &Sources, rows: &Rows) -> Self {
        let by_line = rows.by_line();
        let mut apart: Vec<_> =
            sources.numbered().iter().map(|function| Function::new(function, &by_line)).collect();
        apart.sort_by(|a, b| a.order().cmp(&b.order()));
        let places = rows.devices().map(|(device, place)| (place.clone(), device)).collect();
        let functions = together(&apart);
        Self { functions, apart, places, outside: rows.outside(), columns: None, absent: None, traced: None }
    }

    /// Adds the trace of the rows, for the figures of operators and of other allocators.
    #[must_use]
    pub fn traced(self, trace: Arc<Trace>, as_cuda: fn(&Trace) -> Self) -> Self {
        Self { traced: Some(Traced { trace, as_cuda }), ..self }
    }

    /// Shows separate rows for the attempts of each size, with their outcomes.
    ///
    /// A function around attempts is in none of them.
    #[must_use]
    pub fn by_attempt(self) -> Self {
        Self { functions: self.apart.clone(), ..self }
    }

    /// Takes the separate attempts of another table.
    pub(super) fn with_apart(self, other: Self) -> Self {
        Self { apart: other.apart, ..self }
    }

    /// Shows the operators of each line beneath it, if events were kept.
    ///
    /// Bytes of an operator are those that were allocated and freed while it ran.
    #[must_use]
    pub fn operators(mut self, are_shown: bool) -> Self {
        self.functions.iter_mut().for_each(|function| function.operators.clear());
        if let Some(Traced { trace, .. }) = self.traced.as_ref().filter(|_| are_shown) {
            let are_apart = self.functions.iter().any(|function| function.source.attempt.is_some());
            let of_trace = Self::operators_of(trace, are_apart);
            for function in &mut self.functions {
                let is_it = |other: &&Function| {
                    other.is_same(function) && other.source.attempt == function.source.attempt
                };
                if let Some(same) = of_trace.functions.iter().find(is_it) {
                    function.take_operators(same);
                }
            }
        }
        self
    }

    /// Returns the table of the whole program as if CUDA's caching allocator had served the blocks of the host.
    ///
    /// # Errors
    ///
    /// If no events were kept.
    pub fn as_cuda(&self) -> Result<Self, NoEvents> {
        let Traced { trace, as_cuda } = self.traced.as_ref().ok_or(NoEvents::of("as_cuda"))?;
        let lines = as_cuda(trace);
        let names: Vec<_> =
            self.functions.iter().map(|function| (&function.source.name, &function.source.file)).collect();
        let is_shown = |function: &Function| names.contains(&(&function.source.name, &function.source.file));
        let mut lines = Self { columns: self.columns.clone(), traced: self.traced.clone(), ..lines };
        lines.functions.retain(is_shown);
        lines.apart.retain(is_shown);
        let mut sources = Sources::new();
        for function in &self.functions {
            sources.add(function.source.clone());
        }
        Ok(lines.sources(&sources))
    }

    /// Adds the lines of these functions that never ran, and the texts of the lines.
    ///
    /// For tables of traces, which contain only lines that ran. Functions are identified by name and file.
    #[must_use]
    pub fn sources(mut self, sources: &Sources) -> Self {
        for function in self.functions.iter_mut().chain(&mut self.apart) {
            let is_it = |source: &&Source| {
                (&source.name, &source.file) == (&function.source.name, &function.source.file)
            };
            if let Some(source) = sources.iter().map(|(_, source)| source).find(is_it) {
                function.set_source(source);
            }
        }
        self
    }

    /// Keeps only functions of that name.
    #[must_use]
    pub fn function(mut self, name: &str) -> Self {
        let all = self.called();
        self.functions.retain(|function| function.is_called(name));
        self.apart.retain(|function| function.is_called(name));
        if self.called().is_empty() && !all.is_empty() {
            self.absent = Some(format!("no function {name} was called; these were: {}", all.join(", ")));
        }
        self
    }

    /// Returns the names of the functions that ran.
    fn called(&self) -> Vec<String> {
        let ran = self.functions.iter().filter(|function| !function.rows.is_empty());
        ran.map(|function| function.source.name.clone()).collect()
    }

    /// Selects these columns, in this order. The default is the peak, and the reserved bytes if there are any.
    #[must_use]
    pub fn columns(self, columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: Some(columns.into_iter().collect()), ..self }
    }

    /// Keeps only this device. Otherwise all devices have columns on which a byte was ever seen.
    #[must_use]
    pub fn device(mut self, place: &Place) -> Self {
        if !self.places.contains_key(place) {
            let all: Vec<_> = self.places.keys().map(ToString::to_string).collect();
            self.absent = Some(format!("no device {place} was recorded; these were: {}", all.join(", ")));
        }
        self.places.retain(|known, _| known == place);
        self
    }

    /// Returns the row of a line, by its number in the file, if it ran in a function of that name.
    #[must_use]
    pub fn row(&self, function: &str, number: u32) -> Option<&Row> {
        let functions = self.functions.iter().filter(|it| it.is_called(function));
        functions.flat_map(Function::lines).find(|(line, row)| line.number == number && row.is_some())?.1
    }

    /// Returns the number in the file of the first line with this text, in a function of that name.
    #[must_use]
    pub fn number(&self, function: &str, text: &str) -> Option<u32> {
        let functions = self.functions.iter().filter(|it| it.is_called(function));
        let found = functions.flat_map(Function::lines).find(|(line, _)| line.text.trim() == text)?;
        Some(found.0.number)
    }

    /// Returns the effect of a line on one device, by its number in the file.
    #[must_use]
    pub fn figures(&self, function: &str, number: u32, place: &Place) -> Option<Figures> {
        self.row(function, number)?.devices.get(self.places.get(place)?).copied()
    }

    /// Iterates over the lines that ran: function, number in the file, and text. [`figures`](Self::figures) has their bytes.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u32, &str)> {
        self.functions.iter().flat_map(|function| {
            let ran = function.lines().filter(|(_, row)| row.is_some());
            ran.map(|(line, _)| (&*function.source.name, line.number, line.text.trim()))
        })
    }

    /// Returns each row with the position and the text of its line, and the row of no line.
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

    /// Adds an operator that ran in a line.
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

    /// Returns the devices that have columns. One of several devices is named above its columns.
    pub(super) fn shown_places(&self) -> Vec<(&Place, DeviceId)> {
        let is_used = |device| self.rows().any(|row| row.devices.get(&device).is_some_and(|it| it.peak > 0));
        let used: Vec<_> = self.places().collect();
        if used.len() < 2 { used } else { used.into_iter().filter(|(_, device)| is_used(*device)).collect() }
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.functions.iter().flat_map(|function| function.rows.values())
    }

    pub(super) fn shown_columns(&self) -> Vec<Column> {
        let any =
            |of: fn(&Figures) -> u64| self.rows().any(|row| row.devices.values().any(|one| of(one) > 0));
        let reserves = || any(|figures| figures.reserved);
        let fetches = || any(|figures| figures.fetched);
        self.columns.clone().unwrap_or_else(|| {
            let mut columns = vec![Column::Peak];
            columns.extend(reserves().then_some(Column::Reserved));
            // Peaks include fetched bytes.
            columns.extend(fetches().then_some(Column::Fetched));
            columns
        })
    }
}

/// Adds up the rows of each function over all attempts.
fn together(apart: &[Function]) -> Vec<Function> {
    let mut functions = Vec::<Function>::new();
    for function in apart {
        if let Some(known) = functions.iter_mut().find(|known| known.is_same(function)) {
            known.merge(function);
        } else {
            let source = Source { attempt: None, ..function.source.clone() };
            functions.push(Function { source, outcomes: String::new(), ..function.clone() });
        }
    }
    functions
}

/// A request that needs the events of a recording, which were not kept.
///
/// ```
/// use toma_trace::lines::{Lines, NoEvents};
///
/// /// The lines as a GPU would count them, or as the CPU did.
/// fn for_a_gpu(lines: &Lines) -> Lines {
///     lines.as_cuda().unwrap_or_else(|missing: NoEvents| {
///         eprintln!("{missing}");
///         lines.clone()
///     })
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{requested}: no events were kept, which `Depth::Events` does")]
pub struct NoEvents {
    requested: &'static str,
}

impl NoEvents {
    #[doc(hidden)]
    #[must_use]
    pub const fn of(requested: &'static str) -> Self {
        Self { requested }
    }
}

impl Function {
    fn is_same(&self, other: &Self) -> bool {
        (&self.source.name, &self.source.file) == (&other.source.name, &other.source.file)
    }

    fn merge(&mut self, other: &Self) {
        for (index, row) in &other.rows {
            self.rows.entry(*index).or_default().merge(row);
        }
    }

    /// Takes the operators of the same function in a table of its trace.
    fn take_operators(&mut self, of_trace: &Self) {
        for (index, operators) in &of_trace.operators {
            let number = of_trace.source.lines[*index].number;
            if let Some(own) = self.source.lines.iter().position(|line| line.number == number) {
                self.operators.insert(own, operators.clone());
            }
        }
    }

    fn new(numbered: &Numbered, by_line: &BTreeMap<LineId, Row>) -> Self {
        let Numbered { first, source, outcomes } = numbered.clone();
        let of = |index: usize| by_line.get(&first.nth(u32::try_from(index).unwrap_or(u32::MAX)));
        let rows = (0..source.lines.len()).filter_map(|index| Some((index, of(index)?.clone()))).collect();
        Self { first, source, outcomes, rows, operators: BTreeMap::new() }
    }

    /// Moves rows to the line of their number; those of numbers that the source lacks are lost.
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

    /// True if this is its name, with modules or without.
    fn is_called(&self, name: &str) -> bool {
        self.source.name == name || self.source.name.rsplit("::").next() == Some(name)
    }

    fn order(&self) -> (&str, Option<u32>) {
        (&self.source.file, self.source.lines.first().map(|line| line.number))
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = (&SourceLine, Option<&Row>)> {
        self.source.lines.iter().enumerate().map(|(index, line)| (line, self.rows.get(&index)))
    }
}
