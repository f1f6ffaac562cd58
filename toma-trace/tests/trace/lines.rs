//! What a profiler finds in a trace: bytes by line, the lines of gradients, and categories.

use std::collections::BTreeMap;

use toma_trace::{
    Access, Contradiction, Interval, Label, Moment, Operand, OperatorId, Recorder, Scope, ScopeId, ScopeKind,
    StorageId, ThreadId, Tick, Trace,
};

use crate::{MAIN, OTHER, gpu};

/// A step of two operators, a loss and a backward on a thread of its own; lines 10 to 13.
fn step() -> Result<(Trace, StorageId), Contradiction> {
    let mut recorder = Recorder::new();
    let weight = recorder.existing(&gpu(), 100)?;
    let function = recorder.begin_scope(MAIN, Label::new(ScopeKind::Function, "step").at("src/net.rs", 9));
    let line = line(&mut recorder, 10);
    let product = forward(&mut recorder, "aten::mm", 1, weight, 400)?;
    let result = forward(&mut recorder, "aten::relu", 2, product, 400)?;
    recorder.end_scope(line)?;
    let line = self::line(&mut recorder, 11);
    let loss = forward(&mut recorder, "aten::sum", 3, result, 4)?;
    recorder.end_scope(line)?;
    let line = self::line(&mut recorder, 12);
    let phase = recorder.begin_scope(MAIN, Label::new(ScopeKind::Phase, "backward"));
    let passed = backward(&mut recorder, "aten::threshold_backward", 2, result, 400)?;
    backward(&mut recorder, "aten::mm", 1, passed, 100)?;
    recorder.death(OTHER, passed)?;
    recorder.end_scope(phase)?;
    recorder.end_scope(line)?;
    let line = self::line(&mut recorder, 13);
    for storage in [loss, product, result] {
        recorder.death(MAIN, storage)?;
    }
    recorder.end_scope(line)?;
    recorder.end_scope(function)?;
    Ok((recorder.finish(), weight))
}

fn line(recorder: &mut Recorder, number: u32) -> ScopeId {
    recorder.begin_scope(MAIN, Label::new(ScopeKind::Line, "step").at("src/net.rs", number))
}

fn forward(
    recorder: &mut Recorder,
    name: &str,
    sequence: i64,
    input: StorageId,
    bytes: u64,
) -> Result<StorageId, Contradiction> {
    let operator = recorder.begin_operator(MAIN, name);
    recorder.attribute(operator, "sequence", &[sequence])?;
    finish(recorder, operator, MAIN, input, bytes)
}

fn backward(
    recorder: &mut Recorder,
    name: &str,
    sequence: i64,
    input: StorageId,
    bytes: u64,
) -> Result<StorageId, Contradiction> {
    let node =
        recorder.begin_scope(OTHER, Label::new(ScopeKind::Node, "Backward").with("sequence", &[sequence]));
    let operator = recorder.begin_operator(OTHER, name);
    let made = finish(recorder, operator, OTHER, input, bytes)?;
    recorder.end_scope(node)?;
    Ok(made)
}

fn finish(
    recorder: &mut Recorder,
    operator: OperatorId,
    thread: ThreadId,
    input: StorageId,
    bytes: u64,
) -> Result<StorageId, Contradiction> {
    let made = recorder.birth(thread, &gpu(), bytes)?;
    recorder.uses(operator, Operand::new(input, Access::Reads, &[1]).wants_gradient())?;
    recorder.uses(operator, Operand::new(made, Access::Makes, &[1]).wants_gradient())?;
    recorder.end_operator(operator)?;
    Ok(made)
}

/// What a table of lines says of one line.
#[derive(Debug, Default, PartialEq)]
struct Row {
    allocated: u64,
    freed: u64,
    peak: u64,
    /// Allocated while the gradients of its operators were computed.
    backward: u64,
}

fn rows(trace: &Trace) -> BTreeMap<u32, Row> {
    let mut rows = BTreeMap::<u32, Row>::new();
    for (_, block) in trace.blocks() {
        if let Some(line) = block.birth.and_then(|birth| line_of(trace, birth)) {
            rows.entry(line).or_default().allocated += block.bytes;
        }
        if let Some(line) = block.death.and_then(|death| line_of(trace, death)) {
            rows.entry(line).or_default().freed += block.bytes;
        }
        if let Some(line) = block.operator.and_then(|operator| forward_line(trace, operator)) {
            rows.entry(line).or_default().backward += block.bytes;
        }
    }
    let live = trace.live(&gpu());
    for (line, stay) in trace.scopes().filter_map(|(_, scope)| Some((scope.label.line?, scope.interval))) {
        let during = live.steps().iter().filter(|(tick, _)| stay.contains(*tick)).map(|(_, bytes)| *bytes);
        let row = rows.entry(line).or_default();
        row.peak = during.chain([row.peak, live.at(stay.begin)]).max().unwrap();
    }
    rows.remove(&9);
    rows
}

/// The line in force on the moment's thread, or else on the main thread, which waits for the others.
fn line_of(trace: &Trace, moment: Moment) -> Option<u32> {
    let on = |thread| innermost(trace, ScopeKind::Line, moment.tick, thread)?.label.line;
    on(moment.thread).or_else(|| on(MAIN))
}

fn innermost(trace: &Trace, kind: ScopeKind, tick: Tick, thread: ThreadId) -> Option<&Scope> {
    let covers = |interval: Interval| interval.thread == thread && interval.contains(tick);
    trace
        .scopes()
        .rev()
        .map(|(_, scope)| scope)
        .find(|scope| scope.label.kind == kind && covers(scope.interval))
}

/// Where the operator stands whose gradient this one computes.
fn forward_line(trace: &Trace, operator: OperatorId) -> Option<u32> {
    let interval = trace[operator].interval;
    let node = innermost(trace, ScopeKind::Node, interval.begin, interval.thread)?;
    let sequence = &node.label.attributes[0].values;
    let (_, forward) =
        trace.operators().find(|(_, forward)| forward.attributes.iter().any(|it| it.values == *sequence))?;
    let Interval { begin: tick, thread, .. } = forward.interval;
    innermost(trace, ScopeKind::Line, tick, thread)?.label.line
}

#[test]
fn bytes_by_line() {
    let (trace, _) = step().unwrap();
    let row = |allocated, freed, peak, backward| Row { allocated, freed, peak, backward };
    assert_eq!(
        rows(&trace),
        BTreeMap::from([
            (10, row(800, 0, 900, 500)),
            (11, row(4, 0, 904, 0)),
            (12, row(500, 400, 1404, 0)),
            (13, row(0, 804, 1004, 0)),
        ])
    );
}

#[derive(Debug, PartialEq)]
enum Category {
    Variable,
    Gradient,
    Activation,
    Temporary,
}

fn category(trace: &Trace, storage: StorageId, variables: &[StorageId]) -> Category {
    let block = &trace[storage].blocks[0];
    let backward = trace.scopes().find(|(_, scope)| scope.label.name == "backward").unwrap().1.interval;
    if variables.contains(&storage) {
        Category::Variable
    } else if block.is_alive(backward.begin) {
        Category::Activation
    } else if block.is_alive(trace.end()) {
        Category::Gradient
    } else {
        Category::Temporary
    }
}

#[test]
fn storages_by_category() {
    use Category::{Activation, Gradient, Temporary, Variable};

    let (trace, weight) = step().unwrap();
    let found: Vec<_> = trace.storages().map(|(storage, _)| category(&trace, storage, &[weight])).collect();
    assert_eq!(found, [Variable, Activation, Activation, Activation, Temporary, Gradient]);
}
