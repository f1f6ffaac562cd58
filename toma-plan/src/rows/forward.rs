//! The forward of a recorded step.

use toma_trace::{Scope, ScopeKind, Tick, Trace};

use super::{GRADIENTS, RESULT};
use crate::alike::SizedTrace;

/// Returns the operators of both forwards, including the one that takes the result.
pub(super) fn forwards(traces: [(u32, &Trace); 2]) -> [SizedTrace<'_>; 2] {
    traces.map(|(size, trace)| SizedTrace { size, trace, until: forward_end(trace) })
}

pub(super) fn scopes<'a>(trace: &'a Trace, name: &'a str) -> impl Iterator<Item = &'a toma_trace::Scope> {
    trace
        .scopes()
        .map(|(_, scope)| scope)
        .filter(move |scope| scope.label.kind == ScopeKind::Attempt && scope.label.name == name)
}

/// True if the forward changes gradients, by a backward or otherwise.
pub(super) fn adds_gradients(trace: &Trace) -> bool {
    let end = forward_end(trace);
    let adds = |scope: &Scope| scope.label.name.ends_with("AccumulateGrad") && scope.interval.begin < end;
    let is_marked = scopes(trace, GRADIENTS).any(|scope| scope.interval.begin < end);
    is_marked || trace.scopes().any(|(_, scope)| scope.label.kind == ScopeKind::Node && adds(scope))
}

/// Returns the tick after which the result has been taken. Without such a scope, backward begins with the first node of
/// the autograd graph: from there on gradients meet, and optimizers run.
fn forward_end(trace: &Trace) -> Tick {
    if let Some(result) = scopes(trace, RESULT).next() {
        return result.interval.end;
    }
    let mut nodes = trace.scopes().filter(|(_, scope)| scope.label.kind == ScopeKind::Node);
    nodes.next().map_or(trace.end(), |(_, node)| node.interval.begin)
}
