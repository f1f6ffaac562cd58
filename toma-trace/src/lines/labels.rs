//! Which line each scope of a trace is.

use std::collections::BTreeMap;

use super::sources::{LineId, Source, Sources};
use crate::tables::{Label, Scope, ScopeId, ScopeKind, ThreadId, Trace};

/// The functions of a trace, and the line of each scope that is one.
pub(super) struct Labels {
    pub(super) sources: Sources,
    by_scope: BTreeMap<ScopeId, LineId>,
    /// Whether the trace has functions. Otherwise each scope that is a line is a frame of its own.
    pub(super) has_functions: bool,
}

/// File and name of a function.
type Function = (String, String);

/// Where a scope stands, and its text if that is known.
struct Position {
    function: Function,
    number: u32,
    text: Option<String>,
}

impl Labels {
    pub(super) fn of(trace: &Trace) -> Self {
        let has_functions = trace.scopes().any(|(_, scope)| scope.label.kind == ScopeKind::Function);
        let places = if has_functions { in_functions(trace) } else { by_themselves(trace) };
        let mut functions = BTreeMap::<&Function, BTreeMap<u32, Option<&str>>>::new();
        for place in places.values() {
            let text = functions.entry(&place.function).or_default().entry(place.number).or_default();
            *text = text.or(place.text.as_deref());
        }
        let mut sources = Sources::new();
        let mut lines = BTreeMap::new();
        for ((file, name), texts) in functions {
            let source = texts.iter().fold(Source::new(name, file), |source, (number, text)| {
                source.line(*number, text.unwrap_or(&format!("fn {name}")))
            });
            let first = sources.add(source);
            lines.extend(
                texts.into_keys().zip(0..).map(|(number, nth)| ((file, name, number), first.nth(nth))),
            );
        }
        let line = |place: &Position| lines[&(&place.function.0, &place.function.1, place.number)];
        let by_scope = places.iter().map(|(scope, place)| (*scope, line(place))).collect();
        Self { sources, by_scope, has_functions }
    }

    pub(super) fn line(&self, scope: ScopeId) -> Option<LineId> {
        self.by_scope.get(&scope).copied()
    }
}

/// Functions and their lines.
fn in_functions(trace: &Trace) -> BTreeMap<ScopeId, Position> {
    let mut places = BTreeMap::new();
    let mut open = BTreeMap::<ThreadId, Vec<&Scope>>::new();
    for (id, scope) in trace.scopes() {
        let open = open.entry(scope.interval.thread).or_default();
        open.retain(|function| function.interval.contains(scope.interval.begin));
        match scope.label.kind {
            ScopeKind::Function => {
                open.push(scope);
                places.insert(id, place(&scope.label, &scope.label, None));
            }
            ScopeKind::Line => {
                let text = Some(scope.label.name.clone());
                places.extend(open.last().map(|function| (id, place(&function.label, &scope.label, text))));
            }
            _ => {}
        }
    }
    places
}

fn place(function: &Label, line: &Label, text: Option<String>) -> Position {
    let function = (function.file.clone().unwrap_or_default(), function.name.clone());
    Position { function, number: line.line.unwrap_or_default(), text }
}

/// Attempts, phases, lines and stages, each name numbered as it came up.
fn by_themselves(trace: &Trace) -> BTreeMap<ScopeId, Position> {
    let mut numbers = BTreeMap::<&str, u32>::new();
    let is_row =
        |kind| matches!(kind, ScopeKind::Attempt | ScopeKind::Phase | ScopeKind::Line | ScopeKind::Stage);
    let scopes = trace.scopes().filter(|(_, scope)| is_row(scope.label.kind));
    let mut places = BTreeMap::new();
    for (id, scope) in scopes {
        let next = u32::try_from(numbers.len() + 1).unwrap_or(u32::MAX);
        let number = *numbers.entry(&scope.label.name).or_insert(next);
        let function = ("trace".to_owned(), "scopes".to_owned());
        places.insert(id, Position { function, number, text: Some(scope.label.name.clone()) });
    }
    places
}
