//! The text of functions whose lines are counted.

/// A function and its lines, as they stand in the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Source {
    /// Name, such as `step`.
    pub name: String,
    /// File, such as `src/net.rs`.
    pub file: String,
    /// The attempt in which it was called, if rows are separate for attempts.
    pub attempt: Option<String>,
    /// Lines in the order of the file; the first is where the function begins.
    pub lines: Vec<SourceLine>,
}

/// A line of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourceLine {
    /// Number of the line in the file, from 1.
    pub number: u32,
    /// Text of the line.
    pub text: String,
}

impl Source {
    /// Creates a function without lines.
    #[must_use]
    pub fn new(name: &str, file: &str) -> Self {
        Self { name: name.to_owned(), file: file.to_owned(), attempt: None, lines: Vec::new() }
    }

    /// Adds a line.
    #[must_use]
    pub fn line(mut self, number: u32, text: &str) -> Self {
        self.lines.push(SourceLine { number, text: text.to_owned() });
        self
    }
}

/// Identifies one line of one function among [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineId(pub(crate) u32);

impl LineId {
    /// Returns the line of the same function that is `further` lines after this one, in the function's list of lines.
    #[must_use]
    pub fn nth(self, further: u32) -> Self {
        Self(self.0.saturating_add(further))
    }
}

/// Functions, and numbers for their lines.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    functions: Vec<Numbered>,
    next: u32,
}

/// A function, and the number of its first line.
#[derive(Clone, Debug)]
pub(super) struct Numbered {
    pub(super) first: LineId,
    pub(super) source: Source,
    /// Outcomes of its attempts, if rows are separate for attempts and the outcomes are known.
    pub(super) outcomes: String,
}

impl Sources {
    /// Creates an empty list of functions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a function. Returns its first line; the others are the [`nth`](LineId::nth) after it.
    pub fn add(&mut self, source: Source) -> LineId {
        let first = LineId(self.next);
        let lines = u32::try_from(source.lines.len()).unwrap_or(u32::MAX);
        self.next = self.next.saturating_add(lines);
        self.functions.push(Numbered { first, source, outcomes: String::new() });
        first
    }

    /// Gives a line that was added another number and text.
    pub(crate) fn set_line(&mut self, line: LineId, number: u32, text: &str) {
        if let Some(Numbered { first, source, .. }) = self.of(line)
            && let Some(known) = source.lines.get_mut((line.0 - first.0) as usize)
        {
            *known = SourceLine { number, text: text.to_owned() };
        }
    }

    /// Removes the lines of a function after so many. Their numbers stay taken.
    pub(crate) fn truncate(&mut self, line: LineId, lines: usize) {
        if let Some(function) = self.of(line) {
            function.source.lines.truncate(lines);
        }
    }

    /// Sets the outcomes of the attempts in which the function of a line was called.
    pub(crate) fn set_outcomes(&mut self, line: LineId, outcomes: String) {
        if let Some(function) = self.of(line) {
            function.outcomes = outcomes;
        }
    }

    fn of(&mut self, line: LineId) -> Option<&mut Numbered> {
        let behind = self.functions.partition_point(|function| function.first <= line);
        self.functions.get_mut(behind.checked_sub(1)?)
    }

    /// Returns the first number that belongs to no line yet.
    pub(super) fn end(&self) -> LineId {
        LineId(self.next)
    }

    /// Returns the functions with their first lines, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (LineId, &Source)> {
        self.functions.iter().map(|function| (function.first, &function.source))
    }

    pub(super) fn numbered(&self) -> &[Numbered] {
        &self.functions
    }

    /// Returns the function of a line, and the line in it.
    #[must_use]
    pub fn get(&self, line: LineId) -> Option<(&Source, &SourceLine)> {
        let behind = self.functions.partition_point(|function| function.first <= line);
        let Numbered { first, source, .. } = self.functions.get(behind.checked_sub(1)?)?;
        Some((source, source.lines.get((line.0 - first.0) as usize)?))
    }
}
