//! Functions and attempts that a recording has seen.

use std::collections::{BTreeMap, HashMap};
use std::ptr;

use crate::lines::{LineId, Source, Sources};
use toma_core::marks::Function;

/// Identifies the attempts of one size of one call's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Group(u32);

#[derive(Clone, Debug, Default)]
pub(super) struct KnownSources {
    pub(super) sources: Sources,
    /// First lines of functions, by address and by group of attempts.
    firsts: HashMap<(usize, Group), LineId>,
    /// Number of calls of functions that print themselves.
    calls: HashMap<usize, u32>,
    /// Rows of things that are no functions, by name.
    plain: HashMap<String, Plain>,
    numbers: HashMap<String, HashMap<usize, Group>>,
    groups: Vec<Attempts>,
}

/// Rows of a scope without lines. `ROWS` line numbers are reserved for it, because numbers must be contiguous.
#[derive(Clone, Debug)]
struct Plain {
    first: LineId,
    texts: Vec<String>,
}

const ROWS: usize = 32;

/// Attempts of one size.
#[derive(Clone, Debug)]
struct Attempts {
    title: String,
    succeeded: u64,
    /// Failures by kind and position.
    failed: BTreeMap<String, u64>,
}

/// Number of groups; sizes beyond them share one group.
const GROUPS: usize = 256;

impl KnownSources {
    /// Returns the first line of a function, called in attempts of a group, and its distance from the one in no
    /// attempt.
    pub(super) fn first(&mut self, function: &'static Function, group: Group) -> (LineId, u32) {
        let Self { sources, firsts, groups, .. } = self;
        let mut of = |group| {
            let new = || sources.add(source(function, attempts(groups, group)));
            *firsts.entry((ptr::from_ref(function).addr(), group)).or_insert_with(new)
        };
        let [none, first] = [Group::default(), group].map(&mut of);
        (first, first.0 - none.0)
    }

    /// True if the table of a called function is due.
    pub(super) fn is_due(&mut self, function: &'static Function) -> bool {
        let Some(every) = function.every else { return false };
        let calls = self.calls.entry(ptr::from_ref(function).addr()).or_default();
        *calls += 1;
        calls.is_multiple_of(every.get())
    }

    pub(super) fn group(&mut self, name: &str, size: usize) -> Group {
        if let Some(known) = self.numbers.get(name).and_then(|sizes| sizes.get(&size)) {
            return *known;
        }
        let is_own = self.groups.len() < GROUPS;
        if self.groups.len() <= GROUPS {
            let title = if is_own { format!("size {size} of {name}") } else { "other sizes".to_owned() };
            self.groups.push(Attempts { title, succeeded: 0, failed: BTreeMap::new() });
        }
        let group = Group(u32::try_from(self.groups.len()).unwrap_or(u32::MAX));
        if is_own {
            self.numbers.entry(name.to_owned()).or_default().insert(size, group);
        }
        group
    }

    pub(super) fn title(&self, group: Group) -> String {
        self.attempts(group).map_or_else(String::new, |attempts| attempts.title.clone())
    }

    pub(super) fn succeeded(&mut self, group: Group) {
        if let Some(attempts) = self.attempts_mut(group) {
            attempts.succeeded += 1;
        }
    }

    /// Records that an attempt failed with the message `how`, at a line if it is known.
    pub(super) fn failed(&mut self, group: Group, how: &str, at: Option<LineId>) {
        let position = at.and_then(|line| self.position(line));
        let how = position.map_or_else(|| how.to_owned(), |position| format!("{how} at {position}"));
        if let Some(attempts) = self.attempts_mut(group) {
            *attempts.failed.entry(how).or_default() += 1;
        }
    }

    fn attempts(&self, group: Group) -> Option<&Attempts> {
        attempts(&self.groups, group)
    }

    fn attempts_mut(&mut self, group: Group) -> Option<&mut Attempts> {
        self.groups.get_mut((group.0 as usize).checked_sub(1)?)
    }

    /// Returns file and number of a line.
    pub(super) fn position(&self, line: LineId) -> Option<String> {
        let (source, at) = self.sources.get(line)?;
        Some(if source.file.is_empty() { at.text.clone() } else { format!("{}:{}", source.file, at.number) })
    }

    /// Returns the row of something without lines.
    pub(super) fn row(&mut self, of: &str, text: &str) -> LineId {
        let Self { sources, plain, .. } = self;
        if !plain.contains_key(of) {
            let free = (0..ROWS).fold(Source::new(of, ""), |source, _| source.line(0, ""));
            plain.insert(of.to_owned(), Plain { first: sources.add(free), texts: Vec::new() });
        }
        let rows = plain.get_mut(of).expect("it was put there");
        let known = rows.texts.iter().position(|known| known == text);
        let at = known.unwrap_or_else(|| rows.texts.len().min(ROWS - 1));
        let line = rows.first.nth(u32::try_from(at).unwrap_or(u32::MAX));
        if known.is_none() {
            let is_last = at == ROWS - 1;
            rows.texts.push(text.to_owned());
            sources.set_line(
                line,
                u32::try_from(at + 1).unwrap_or(u32::MAX),
                if is_last { "others" } else { text },
            );
            rows.texts.truncate(ROWS);
        }
        line
    }

    /// Returns the sources, with the outcomes of their attempts.
    pub(super) fn distinguished(&self) -> Sources {
        let mut sources = self.sources.clone();
        for Plain { first, texts } in self.plain.values() {
            sources.truncate(*first, texts.len());
        }
        for ((_, group), first) in &self.firsts {
            if let Some(attempts) = self.attempts(*group) {
                sources.set_outcomes(*first, attempts.outcomes());
            }
        }
        sources
    }
}

impl Attempts {
    fn outcomes(&self) -> String {
        let succeeded = (self.succeeded > 0).then(|| format!("{} succeeded", self.succeeded));
        let failed = self.failed.iter().map(|(how, count)| format!("{count} {how}"));
        succeeded.into_iter().chain(failed).collect::<Vec<_>>().join(", ")
    }
}

fn attempts(groups: &[Attempts], group: Group) -> Option<&Attempts> {
    groups.get((group.0 as usize).checked_sub(1)?)
}

fn source(function: &Function, attempts: Option<&Attempts>) -> Source {
    let mut named = Source::new(&function.path(), &function.shown_file());
    named.attempt = attempts.map(|attempts| attempts.title.clone());
    function.lines.iter().fold(named, |source, line| source.line(line.number, line.text))
}
