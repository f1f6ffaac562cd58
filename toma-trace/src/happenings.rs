//! The events of a trace one by one.

use crate::tables::{OperatorId, ScopeId, ThreadId, Tick, Trace};

/// An event at one tick.
pub(crate) enum Happening {
    Begins(ScopeId),
    Ends(ScopeId),
    OperatorBegins(OperatorId),
    OperatorEnds(OperatorId),
    /// Birth of a block, by its number in the order of the trace.
    Born(usize, ThreadId),
    Dies(usize, ThreadId),
}

/// Returns all events, in the order of their ticks.
pub(crate) fn happenings(trace: &Trace) -> Vec<(Tick, Happening)> {
    let mut all = Vec::new();
    for (id, scope) in trace.scopes() {
        all.push((scope.interval.begin, Happening::Begins(id)));
        all.push((scope.interval.end, Happening::Ends(id)));
    }
    for (id, operator) in trace.operators() {
        all.push((operator.interval.begin, Happening::OperatorBegins(id)));
        all.push((operator.interval.end, Happening::OperatorEnds(id)));
    }
    for (number, (_, block)) in trace.blocks().enumerate() {
        all.extend(block.birth.map(|birth| (birth.tick, Happening::Born(number, birth.thread))));
        all.extend(block.death.map(|death| (death.tick, Happening::Dies(number, death.thread))));
    }
    all.sort_by_key(|(tick, _)| *tick);
    all
}
