//! Facts for a checkpoint planner in a trace: times, outputs and saved bytes of stages.

use std::time::Duration;

use toma_trace::{
    Access, Attribute, Contradiction, Interval, Label, Operand, Operator, Recorder, ScopeId, ScopeKind,
    StorageId, Trace,
};

use crate::{MAIN, gpu};

/// Two stages of two operators each, and their backward, last operator first.
fn step() -> Result<Trace, Contradiction> {
    let mut recorder = Recorder::new();
    let mut last = recorder.existing(&gpu(), 64)?;
    let mut saved = Vec::new();
    for stage in 0..2 {
        let scope = recorder.begin_scope(MAIN, Label::new(ScopeKind::Stage, &format!("block {stage}")));
        for (bytes, micros) in [(100, 30), (40, 10)] {
            let sequence = i64::try_from(saved.len()).unwrap();
            let made = call(&mut recorder, sequence, last, bytes + stage, micros)?;
            saved.push((sequence, last));
            last = made;
        }
        recorder.end_scope(scope)?;
    }
    for (sequence, input) in saved.into_iter().rev() {
        let node =
            recorder.begin_scope(MAIN, Label::new(ScopeKind::Node, "Backward").with("sequence", &[sequence]));
        let gradient = call(&mut recorder, -1, input, 9, 50)?;
        recorder.end_scope(node)?;
        recorder.death(MAIN, gradient)?;
    }
    Ok(recorder.finish())
}

fn call(
    recorder: &mut Recorder,
    sequence: i64,
    input: StorageId,
    bytes: u64,
    micros: u64,
) -> Result<StorageId, Contradiction> {
    let operator = recorder.begin_operator(MAIN, "aten::mm");
    recorder.attribute(operator, "sequence", &[sequence])?;
    recorder.duration(operator, Duration::from_micros(micros))?;
    let made = recorder.birth(MAIN, &gpu(), bytes)?;
    recorder.uses(operator, Operand::new(input, Access::Reads, &[16]).wants_gradient())?;
    recorder.uses(operator, Operand::new(made, Access::Makes, &[4]).wants_gradient())?;
    recorder.end_operator(operator)?;
    Ok(made)
}

/// The costs of a stage.
#[derive(Debug, PartialEq)]
struct Costs {
    forward: Duration,
    backward: Duration,
    /// Bytes made in the stage and read by the forward of a later one.
    output_bytes: u64,
    /// Bytes made in the stage and read by a backward.
    saved_bytes: u64,
}

fn costs(trace: &Trace, stage: ScopeId) -> Costs {
    let within = trace[stage].interval;
    let time = |belongs: &dyn Fn(&Operator) -> bool| -> Duration {
        trace
            .operators()
            .filter(|(_, operator)| belongs(operator))
            .filter_map(|(_, operator)| operator.duration)
            .sum()
    };
    let is_forward = |operator: &Operator| within.contains(operator.interval.begin);
    let is_backward = |operator: &Operator| {
        let forward = sequence_of_node(trace, operator).and_then(|sequence| forward_of(trace, sequence));
        forward.is_some_and(is_forward)
    };
    let bytes = |is_reader: &dyn Fn(&Operator) -> bool| -> u64 {
        let made = trace
            .storages()
            .filter(|(_, storage)| storage.blocks[0].operator.is_some_and(|maker| is_forward(&trace[maker])));
        let read = made.filter(|(id, _)| {
            let mut reads = trace.uses().iter().filter(|used| used.operand.access == Access::Reads);
            reads.any(|used| used.operand.storage == *id && is_reader(&trace[used.operator]))
        });
        read.map(|(_, storage)| storage.blocks[0].bytes).sum()
    };
    Costs {
        forward: time(&is_forward),
        backward: time(&is_backward),
        output_bytes: bytes(&|reader| !is_forward(reader) && sequence_of_node(trace, reader).is_none()),
        saved_bytes: bytes(&|reader| sequence_of_node(trace, reader).is_some()),
    }
}

/// The number of the node that an operator of backward runs in.
fn sequence_of_node<'a>(trace: &'a Trace, operator: &Operator) -> Option<&'a [i64]> {
    let scope = &trace[operator.scope?];
    (scope.label.kind == ScopeKind::Node).then(|| &*scope.label.attributes[0].values)
}

fn forward_of<'a>(trace: &'a Trace, sequence: &[i64]) -> Option<&'a Operator> {
    let is_it = |attribute: &Attribute| attribute.values == sequence;
    trace.operators().map(|(_, operator)| operator).find(|operator| operator.attributes.iter().any(is_it))
}

#[test]
fn times_and_saved_bytes_of_stages() {
    let trace = step().unwrap();
    let stages = trace.scopes().filter(|(_, scope)| scope.label.kind == ScopeKind::Stage);
    let found: Vec<_> = stages.map(|(id, _)| costs(&trace, id)).collect();
    let micros = Duration::from_micros;
    let costs = |output_bytes, saved_bytes| Costs {
        forward: micros(40),
        backward: micros(100),
        output_bytes,
        saved_bytes,
    };
    // The last output is read by no backward, and no later stage reads it.
    assert_eq!(found, [costs(40, 140), costs(0, 101)]);
    let Interval { begin, end, .. } = trace.scopes().next().unwrap().1.interval;
    let live = trace.live(&gpu());
    assert_eq!((live.at(begin), live.at(end)), (64, 64 + 140));
}
