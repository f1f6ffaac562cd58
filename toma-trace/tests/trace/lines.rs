//! Facts for a profiler in a trace: bytes by line, and the lines of gradients.

use std::sync::Arc;

use toma_core::marks::Column;
use toma_trace::lines::{Lines, Source, Sources};
use toma_trace::{
    Access, Contradiction, Label, Operand, OperatorId, Recorder, ScopeId, ScopeKind, StorageId, ThreadId,
    Trace,
};

use crate::{MAIN, OTHER, gpu};

/// A step of two operators, a loss and a backward on a thread of its own; lines 10 to 13.
pub(crate) fn step() -> Result<(Trace, StorageId), Contradiction> {
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
    for (storage, access) in [(input, Access::Reads), (made, Access::Makes)] {
        recorder.uses(operator, Operand { wants_gradient: true, ..Operand::new(storage, access, &[1]) })?;
    }
    recorder.end_operator(operator)?;
    Ok(made)
}

#[test]
fn bytes_by_line() {
    let (trace, _) = step().unwrap();
    let lines = Lines::of(&trace);
    let row = |line| {
        let figures = lines.figures("step", line, &gpu()).unwrap();
        (figures.allocated, figures.freed, figures.peak, figures.backward)
    };
    assert_eq!(row(9), (0, 0, 100, 0));
    assert_eq!(row(10), (800, 0, 900, 500));
    assert_eq!(row(11), (4, 0, 904, 0));
    // The work of the backward's thread belongs to the line that waits for it.
    assert_eq!(row(12), (500, 400, 1404, 0));
    assert_eq!(row(13), (0, 804, 1004, 0));
    assert_eq!(lines.row("step", 14), None);
}

#[test]
fn scopes_have_rows_where_there_are_no_functions() {
    let mut recorder = Recorder::new();
    for size in [4, 2] {
        let attempt =
            recorder.begin_scope(MAIN, Label::new(ScopeKind::Attempt, &format!("attempt of {size}")));
        let phase = recorder.begin_scope(MAIN, Label::new(ScopeKind::Phase, "forward"));
        let made = recorder.birth(MAIN, &gpu(), size * 256).unwrap();
        recorder.end_scope(phase).unwrap();
        recorder.death(MAIN, made).unwrap();
        recorder.end_scope(attempt).unwrap();
    }
    let lines = Lines::of(&recorder.finish()).columns([Column::Peak, Column::Allocated, Column::Hits]);
    assert_eq!(
        lines.to_string(),
        "\
## scopes (trace)

    peak  allocated  hits  line  code
   1.00K      1.00K     1     1  attempt of 4
   1.00K      1.50K     2     2  forward
 512.00B    512.00B     1     3  attempt of 2
"
    );
}

#[test]
fn operators_stand_beneath_their_lines() {
    let (trace, _) = step().unwrap();
    let columns = [Column::Peak, Column::Allocated, Column::Kept, Column::Hits];
    assert_eq!(
        Lines::with_operators(&trace).columns(columns).to_string(),
        "\
## step (src/net.rs)

     peak  allocated     kept  hits  line  code
  100.00B      0.00B    0.00B     0     9  fn step
  900.00B    800.00B    0.00B     1    10  step
  500.00B    400.00B    0.00B     1            mm
  900.00B    400.00B    0.00B     1            relu
  904.00B      4.00B    0.00B     1    11  step
  904.00B      4.00B    0.00B     1            sum
    1.37K    500.00B  100.00B     1    12  step
    1.37K    100.00B  100.00B     1            mm
    1.27K    400.00B    0.00B     1            threshold_backward
 1004.00B      0.00B    0.00B     1    13  step
"
    );
}

/// A trace contains only the lines that ran; the sources also contain the others.
#[test]
fn lines_that_never_ran_are_blank_beside_the_source() {
    let (trace, _) = step().unwrap();
    let mut sources = Sources::new();
    sources.add(Source::new("step", "src/other.rs").line(1, "not this one"));
    let step =
        Source::new("step", "src/net.rs").line(9, "fn step() {").line(10, "    let y = x.mm(w).relu();");
    let step = step.line(11, "    let loss = y.sum();").line(12, "    loss.backward();");
    sources.add(step.line(13, "}").line(14, "// never"));
    assert_eq!(
        Lines::of(&trace).sources(&sources).to_string(),
        "\
## step (src/net.rs)

     peak  line  code
  100.00B     9  fn step() {
  900.00B    10      let y = x.mm(w).relu();
  904.00B    11      let loss = y.sum();
    1.37K    12      loss.backward();
 1004.00B    13  }
             14  // never
"
    );
    let text = Lines::with_operators(&trace).sources(&sources).columns([Column::Hits]).to_string();
    assert!(text.contains("    1    11      let loss = y.sum();\n    1                sum\n"), "{text}");
}

/// A step that is called in three attempts, in an outer function.
#[test]
fn attempts_have_rows_of_their_own() {
    let mut recorder = Recorder::new();
    recorder.begin_scope(OTHER, Label::new(ScopeKind::Attempt, "another thread's"));
    let outer = recorder.begin_scope(MAIN, Label::new(ScopeKind::Function, "train").at("src/net.rs", 20));
    for size in [16, 8, 8] {
        let name = format!("attempt of {size}");
        let attempt = recorder.begin_scope(MAIN, Label::new(ScopeKind::Attempt, &name));
        let function =
            recorder.begin_scope(MAIN, Label::new(ScopeKind::Function, "step").at("src/net.rs", 9));
        let line = line(&mut recorder, 10);
        let made = recorder.birth(MAIN, &gpu(), size).unwrap();
        recorder.end_scope(line).unwrap();
        recorder.death(MAIN, made).unwrap();
        recorder.end_scope(function).unwrap();
        recorder.end_scope(attempt).unwrap();
    }
    recorder.end_scope(outer).unwrap();
    let trace = recorder.finish();
    let columns = [Column::Peak, Column::Allocated, Column::Hits];
    assert_eq!(
        Lines::of(&trace).by_attempt().columns(columns).to_string(),
        "\
## step (src/net.rs), attempt of 16

   peak  allocated  hits  line  code
  0.00B      0.00B     0     9  fn step
 16.00B     16.00B     1    10  step

## step (src/net.rs), attempt of 8

  peak  allocated  hits  line  code
 0.00B      0.00B     0     9  fn step
 8.00B     16.00B     2    10  step

## train (src/net.rs)

   peak  allocated  hits  line  code
 16.00B     32.00B     0    20  fn train
"
    );
    let figures = Lines::of(&trace).figures("step", 10, &gpu()).unwrap();
    assert_eq!((figures.peak, figures.allocated), (16, 32));
}

/// An attempt of each of two sizes, with one operator.
#[test]
fn operators_are_those_of_their_attempts() {
    let mut recorder = Recorder::new();
    let weight = recorder.existing(&gpu(), 1).unwrap();
    for size in [16, 8] {
        let name = format!("attempt of {size}");
        let attempt = recorder.begin_scope(MAIN, Label::new(ScopeKind::Attempt, &name));
        let function =
            recorder.begin_scope(MAIN, Label::new(ScopeKind::Function, "step").at("src/net.rs", 9));
        let line = line(&mut recorder, 10);
        forward(&mut recorder, "aten::mm", 1, weight, size).unwrap();
        recorder.end_scope(line).unwrap();
        recorder.end_scope(function).unwrap();
        recorder.end_scope(attempt).unwrap();
    }
    let trace = Arc::new(recorder.finish());
    let lines = Lines::of(&trace).traced(Arc::clone(&trace), Lines::of);
    let apart = lines.columns([Column::Allocated]).by_attempt().operators(true).to_string();
    for row in ["16.00B            mm\n", " 8.00B            mm\n"] {
        assert_eq!(apart.matches(row).count(), 1, "{apart}");
    }
    assert!(!apart.contains("24.00B"), "{apart}");
}

/// Memory allocated in a node belongs to the line of its operator, and after the node ends to the outer node's line.
#[test]
fn nodes_within_nodes_are_distinguished() {
    let mut recorder = Recorder::new();
    let weight = recorder.existing(&gpu(), 1).unwrap();
    recorder.begin_scope(MAIN, Label::new(ScopeKind::Function, "step").at("src/net.rs", 9));
    for (number, sequence) in [(10, 1), (11, 2)] {
        let line = line(&mut recorder, number);
        forward(&mut recorder, "aten::mm", sequence, weight, 1).unwrap();
        recorder.end_scope(line).unwrap();
    }
    let line = line(&mut recorder, 12);
    let node = |number| Label::new(ScopeKind::Node, "Backward").with("sequence", &[number]);
    let outer = recorder.begin_scope(MAIN, node(2));
    recorder.birth(MAIN, &gpu(), 100).unwrap();
    let inner = recorder.begin_scope(MAIN, node(1));
    recorder.birth(MAIN, &gpu(), 1000).unwrap();
    recorder.end_scope(inner).unwrap();
    recorder.birth(MAIN, &gpu(), 20).unwrap();
    recorder.end_scope(outer).unwrap();
    recorder.birth(MAIN, &gpu(), 7).unwrap();
    recorder.end_scope(line).unwrap();
    let lines = Lines::of(&recorder.finish());
    let backward = [10, 11, 12].map(|line| lines.figures("step", line, &gpu()).unwrap().backward);
    assert_eq!(backward, [1000, 120, 0]);
}
