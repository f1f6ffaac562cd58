//! Maps scopes of a trace to lines.

use std::collections::BTreeMap;

use super::sources::{LineId, Source, Sources};
use crate::tables::{Interval, Label, Scope, ScopeId, ScopeKind, ThreadId, Trace};

/// The functions of a trace, and the line of each scope that is one.
pub(super) struct Labels {
    pub(super) sources: Sources,
    by_scope: BTreeMap<ScopeId, LineId>,
    /// True if the trace has functions. Otherwise each scope that is a line is a frame of its own.
    pub(super) has_functions: bool,
}

/// The function that rows belong to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct TracedFunction {
    file: String,
    name: String,
    /// The attempt it was called in, if attempts are separate: the first of its name, so that they stay in order.
    attempt: Option<(ScopeId, String)>,
}

/// Position of a scope, and its text if that is known.
struct Position {
    function: TracedFunction,
    number: u32,
    text: Option<String>,
}

impl Labels {
    pub(super) fn of(trace: &Trace, are_attempts_apart: bool) -> Self {
        let has_functions = trace.scopes().any(|(_, scope)| scope.label.kind == ScopeKind::Function);
        let places =
            if has_functions { in_functions(trace, are_attempts_apart) } else { by_themselves(trace) };
        let mut functions = BTreeMap::<&TracedFunction, BTreeMap<u32, Option<&str>>>::new();
        for place in places.values() {
            let text = functions.entry(&place.function).or_default().entry(place.number).or_default();
            *text = text.or(place.text.as_deref());
        }
        let mut sources = Sources::new();
        let mut lines = BTreeMap::new();
        for (function, texts) in functions {
            let first = sources.add(source(function, &texts));
            lines
                .extend(texts.into_keys().zip(0..).map(|(number, nth)| ((function, number), first.nth(nth))));
        }
        let line = |position: &Position| lines[&(&position.function, position.number)];
        let by_scope = places.iter().map(|(scope, place)| (*scope, line(place))).collect();
        Self { sources, by_scope, has_functions }
    }

    pub(super) fn line(&self, scope: ScopeId) -> Option<LineId> {
        self.by_scope.get(&scope).copied()
    }
}

fn source(function: &TracedFunction, texts: &BTreeMap<u32, Option<&str>>) -> Source {
    let mut source = Source::new(&function.name, &function.file);
    source.attempt = function.attempt.as_ref().map(|(_, name)| name.clone());
    let unknown = format!("fn {}", function.name);
    texts.iter().fold(source, |source, (number, text)| source.line(*number, text.unwrap_or(&unknown)))
}

/// Returns the positions of functions and their lines.
fn in_functions(trace: &Trace, are_attempts_apart: bool) -> BTreeMap<ScopeId, Position> {
    let mut positions = BTreeMap::new();
    let mut open = BTreeMap::<ThreadId, Vec<(&Scope, TracedFunction)>>::new();
    let mut attempts = OpenAttempts::default();
    for (id, scope) in trace.scopes() {
        let open = open.entry(scope.interval.thread).or_default();
        open.retain(|(function, _)| function.interval.contains(scope.interval.begin));
        let Label { kind, name, file, line, .. } = &scope.label;
        let number = line.unwrap_or_default();
        match kind {
            ScopeKind::Attempt if are_attempts_apart => attempts.begins(id, scope),
            ScopeKind::Function => {
                let (file, attempt) = (file.clone().unwrap_or_default(), attempts.around(scope));
                let function = TracedFunction { file, name: name.clone(), attempt };
                positions.insert(id, Position { function: function.clone(), number, text: None });
                open.push((scope, function));
            }
            ScopeKind::Line => {
                let position = |function: &TracedFunction| Position {
                    function: function.clone(),
                    number,
                    text: Some(name.clone()),
                };
                positions.extend(open.last().map(|(_, function)| (id, position(function))));
            }
            _ => {}
        }
    }
    positions
}

/// Attempts that have begun so far.
#[derive(Default)]
struct OpenAttempts<'a> {
    /// Attempts that may not have ended.
    begun: Vec<&'a Scope>,
    /// First attempt of each name.
    firsts: BTreeMap<&'a str, ScopeId>,
}

impl<'a> OpenAttempts<'a> {
    fn begins(&mut self, id: ScopeId, scope: &'a Scope) {
        self.begun.retain(|earlier| scope.interval.begin < earlier.interval.end);
        self.begun.push(scope);
        self.firsts.entry(&scope.label.name).or_insert(id);
    }

    /// Returns the innermost attempt of the scope's thread, if it is in one.
    fn around(&self, scope: &Scope) -> Option<(ScopeId, String)> {
        let Interval { begin, thread, .. } = scope.interval;
        let is_around =
            |attempt: &&&Scope| attempt.interval.thread == thread && attempt.interval.contains(begin);
        let name = &self.begun.iter().rev().find(is_around)?.label.name;
        Some((*self.firsts.get(name.as_str())?, name.clone()))
    }
}

/// Returns the positions of attempts, phases, lines and stages, numbered in the order of their names' appearance.
fn by_themselves(trace: &Trace) -> BTreeMap<ScopeId, Position> {
    let mut numbers = BTreeMap::<&str, u32>::new();
    let is_row = |kind| matches!(kind, ScopeKind::Attempt | ScopeKind::Phase | ScopeKind::Line);
    let scopes = trace.scopes().filter(|(_, scope)| is_row(scope.label.kind));
    let mut places = BTreeMap::new();
    for (id, scope) in scopes {
        let next = u32::try_from(numbers.len() + 1).unwrap_or(u32::MAX);
        let number = *numbers.entry(&scope.label.name).or_insert(next);
        let function = TracedFunction { file: "trace".to_owned(), name: "scopes".to_owned(), attempt: None };
        places.insert(id, Position { function, number, text: Some(scope.label.name.clone()) });
    }
    places
}
