//! Rows of a trace: its events, replayed on the stacks of its threads.
//!
//! # Why
//!
//! The stacks are those that count a running program. So both count alike.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::blocks::Born;
use super::labels::Labels;
use super::rows::{DeviceId, Rows};
use super::served::{Served, requested, shown};
use super::sources::LineId;
use super::stack::Stack;
use super::table::Lines;
use crate::event::Node;
use crate::happenings::{Happening, happenings};
use crate::place::Place;
use crate::record::Open;
use crate::tables::{Block, Moment, Operator, Scope, ScopeId, ScopeKind, ThreadId, Trace};

impl Lines {
    /// Returns the table of a trace, which is the table of the program if each line was a scope.
    ///
    /// A scope of kind [`Function`](ScopeKind::Function) is a frame. Scopes of kind [`Line`](ScopeKind::Line) in it are
    /// stays, named by the line's text. A line that becomes current again without a mark has the property `resumed`. If
    /// a trace has no functions, each attempt, phase, line and stage has a row of its own.
    ///
    /// A trace contains no failed allocations and no reserved bytes. Time is that of operators.
    /// [Separate](Self::by_attempt) attempts of one name are one group.
    #[must_use]
    pub fn of(trace: &Trace) -> Self {
        let lines = LineReplay::new(trace, None).lines(trace);
        let is_attempt = |scope: &Scope| scope.label.kind == ScopeKind::Attempt;
        if !trace.scopes().any(|(_, scope)| is_attempt(scope)) {
            return lines;
        }
        let mut replay = LineReplay::new(trace, None);
        replay.labels = Labels::of(trace, true);
        lines.with_apart(replay.lines(trace))
    }

    /// As [`of`](Self::of), with the operators of each line beneath it.
    ///
    /// Bytes of an operator are those that were allocated and freed while it ran.
    #[must_use]
    pub fn with_operators(trace: &Trace) -> Self {
        Self::operators_of(trace, false)
    }

    pub(super) fn operators_of(trace: &Trace, are_attempts_apart: bool) -> Self {
        let mut replay = LineReplay::new(trace, None);
        replay.labels = Labels::of(trace, are_attempts_apart);
        replay.operators = Some(BTreeMap::new());
        replay.replay(trace);
        replay.threads.clear();
        let by_line = replay.rows.by_line();
        let lines = Self::of(trace);
        let mut lines = if are_attempts_apart { lines.by_attempt() } else { lines };
        for ((line, name), operator) in replay.operators.unwrap_or_default() {
            let row = by_line.get(&operator).cloned().unwrap_or_default();
            lines.add_operator(line, &name, row);
        }
        lines
    }

    /// As [`of`](Self::of), as if an allocator had served the blocks of one place.
    #[must_use]
    pub fn served(trace: &Trace, by: Served<'_>) -> Self {
        LineReplay::new(trace, Some(by)).lines(trace)
    }
}

/// Returns file and number of the line in which each block was born, in the order of the trace.
pub(crate) fn birth_lines(trace: &Trace) -> Vec<Option<String>> {
    let mut replay = LineReplay::new(trace, None);
    replay.replay(trace);
    if !replay.labels.has_functions {
        return vec![None; replay.blocks.len()];
    }
    let line = |held: &CountedBlock| replay.labels.sources.get(held.born?.line()?);
    let lines = replay.blocks.iter().map(line);
    lines.map(|line| line.map(|(source, line)| format!("{}:{}", source.file, line.number))).collect()
}

/// Replays a trace to rows.
struct LineReplay<'a> {
    labels: Labels,
    served: Option<Served<'a>>,
    rows: Arc<Rows>,
    threads: BTreeMap<ThreadId, Thread>,
    /// The blocks of the trace, in its order.
    blocks: Vec<CountedBlock>,
    /// Time of the operators so far, in nanoseconds.
    clock: Arc<AtomicU64>,
    /// The line of the operator that made the node of a number.
    makers: BTreeMap<i64, LineId>,
    /// If operators are rows, the number of each, by its line and name. They are frames then.
    operators: Option<BTreeMap<(LineId, String), LineId>>,
}

struct Thread {
    stack: Stack,
    /// Open scopes that are a line, innermost last.
    lines: Vec<LineId>,
    /// Lines of the running nodes, innermost last.
    nodes: Vec<Option<LineId>>,
}

/// A block, as its device counts it.
#[derive(Clone)]
struct CountedBlock {
    place: Place,
    bytes: u64,
    /// `None` if the block existed before the trace.
    born: Option<Born>,
}

impl<'a> LineReplay<'a> {
    fn new(trace: &Trace, mut served: Option<Served<'a>>) -> Self {
        let mut blocks = Vec::new();
        let mut before = BTreeMap::<Place, u64>::new();
        for (number, (_, block)) in trace.blocks().enumerate() {
            let mut held = CountedBlock { place: block.place.clone(), bytes: 0, born: None };
            let there = before.entry(shown(&held.place, served.as_ref())).or_default();
            if block.birth.is_none() {
                held.bytes = requested(number, block, served.as_mut());
                *there += held.bytes;
            }
            blocks.push(held);
        }
        let before: Vec<_> = before.into_iter().collect();
        let clock = Arc::new(AtomicU64::new(0));
        let read = Arc::clone(&clock);
        let rows = Rows::new(&before).clock(move || Duration::from_nanos(read.load(Relaxed)));
        if let Some(served) = &served {
            rows.device(&served.shown_as)
                .inspect(|device| rows.gauge(*device).reserve(served.allocator.reserved_bytes()));
        }
        Self {
            labels: Labels::of(trace, false),
            served,
            rows: Arc::new(rows),
            threads: BTreeMap::new(),
            blocks,
            clock,
            makers: BTreeMap::new(),
            operators: None,
        }
    }

    fn lines(mut self, trace: &Trace) -> Lines {
        self.replay(trace);
        self.threads.clear();
        Lines::new(&self.labels.sources, &self.rows)
    }

    fn replay(&mut self, trace: &Trace) {
        let blocks: Vec<_> = trace.blocks().map(|(_, block)| block).collect();
        for (Moment { thread, .. }, happening) in happenings(trace) {
            match happening {
                Happening::Begins(Open::Scope(id)) => self.begins(id, &trace[id]),
                Happening::Ends(Open::Scope(id)) => self.ends(id, &trace[id]),
                Happening::Begins(Open::Operator(id)) => self.operator_begins(&trace[id]),
                Happening::Ends(Open::Operator(id)) => self.operator_ends(&trace[id]),
                Happening::Born(number) => self.born(number, blocks[number], thread),
                Happening::Dies(number) => self.dies(number, thread),
            }
        }
    }

    fn thread(&mut self, thread: ThreadId) -> &mut Thread {
        let new = || Thread { stack: Stack::new(&self.rows), lines: Vec::new(), nodes: Vec::new() };
        self.threads.entry(thread).or_insert_with(new)
    }
}

/// Scopes and operators.
impl LineReplay<'_> {
    fn begins(&mut self, id: ScopeId, scope: &Scope) {
        let maker = scope.label.sequence().and_then(|number| self.maker(number));
        let line = self.labels.line(id);
        let is_frame = scope.label.kind == ScopeKind::Function || !self.labels.has_functions;
        let thread = self.thread(scope.interval.thread);
        if scope.label.kind == ScopeKind::Node {
            thread.nodes.push(maker);
            thread.stack.gradient_of(maker);
        }
        let Some(line) = line else { return };
        thread.lines.push(line);
        match scope.label.kind {
            ScopeKind::Function => thread.stack.enter(line),
            _ if is_frame => {
                thread.stack.enter(line);
                thread.stack.mark(line);
            }
            _ if is_resumed(scope) => thread.stack.left_block(line),
            _ => thread.stack.mark(line),
        }
    }

    /// Returns the line of the operator that made a node: the last operator with this number or a lower one. The
    /// operators that it calls take numbers, too.
    fn maker(&self, number: i64) -> Option<LineId> {
        // Nodes of one thread are made by that thread.
        let is_of_thread = |other: i64| other >> Node::THREAD == number >> Node::THREAD;
        let (last, line) = self.makers.range(..=number).next_back()?;
        is_of_thread(*last).then_some(*line)
    }

    fn ends(&mut self, id: ScopeId, scope: &Scope) {
        let is_line = self.labels.line(id).is_some();
        let is_frame = scope.label.kind == ScopeKind::Function || !self.labels.has_functions;
        let thread = self.thread(scope.interval.thread);
        if scope.label.kind == ScopeKind::Node {
            thread.nodes.pop();
            thread.stack.gradient_of(thread.nodes.last().copied().flatten());
        }
        if !is_line {
            return;
        }
        thread.lines.pop();
        match thread.lines.last() {
            _ if is_frame => {
                thread.stack.leave();
            }
            Some(enclosing) => thread.stack.left_block(*enclosing),
            None => {}
        }
    }

    fn operator_begins(&mut self, operator: &Operator) {
        let line = self.thread(operator.interval.thread).stack.line();
        self.makers.extend(operator.sequence().zip(line));
        let line = line.or_else(|| self.rows.only_line());
        let Some((operators, line)) = self.operators.as_mut().zip(line) else { return };
        let next = self.labels.sources.end().nth(u32::try_from(operators.len()).unwrap_or(u32::MAX));
        let row = *operators.entry((line, operator.short_name().to_owned())).or_insert(next);
        let thread = self.thread(operator.interval.thread);
        thread.stack.enter(row);
        thread.stack.mark(row);
    }

    fn operator_ends(&mut self, operator: &Operator) {
        let took = operator.duration.unwrap_or_default().as_nanos();
        self.clock.fetch_add(u64::try_from(took).unwrap_or(u64::MAX), Relaxed);
        if self.operators.is_some() {
            self.thread(operator.interval.thread).stack.leave();
        }
    }
}

fn is_resumed(scope: &Scope) -> bool {
    scope.label.attributes.iter().any(|attribute| attribute.name == "resumed")
}

/// Blocks.
impl LineReplay<'_> {
    fn born(&mut self, number: usize, block: &Block, thread: ThreadId) {
        let bytes = requested(number, block, self.served.as_mut());
        let device = self.device(number);
        let stack = &mut self.thread(thread).stack;
        let born = stack.allocated(device, bytes);
        self.blocks[number].bytes = bytes;
        self.blocks[number].born = Some(born);
        self.reserves(thread);
    }

    fn dies(&mut self, number: usize, thread: ThreadId) {
        let CountedBlock { place, bytes, born, .. } = self.blocks[number].clone();
        if let Some(served) = self.served.as_mut().filter(|served| served.place == place) {
            served.allocator.free(number);
        }
        let device = self.device(number);
        self.thread(thread).stack.freed(device, bytes, born);
        self.reserves(thread);
    }

    fn reserves(&mut self, thread: ThreadId) {
        if let Some(served) = &self.served {
            let total = served.allocator.reserved_bytes();
            if let Some(device) = self.rows.device(&served.shown_as) {
                self.thread(thread).stack.reserved(device, total);
            }
        }
    }

    fn device(&self, number: usize) -> DeviceId {
        let place = shown(&self.blocks[number].place, self.served.as_ref());
        self.rows.device(&place).expect("every place of the trace has rows")
    }
}
