//! The events of a trace one by one, with the identities of its rows.
//!
//! # Why
//!
//! They are no [`Event`](crate::Event)s: a row may hold more than an event, such as the properties of a label.

use crate::record::Open;
use crate::tables::{Interval, Moment, Trace};

/// An event at one moment.
pub(crate) enum Happening {
    Begins(Open),
    Ends(Open),
    /// Birth of a block, by its number in the order of the trace.
    Born(usize),
    Dies(usize),
}

/// Returns all events, in the order of their ticks.
pub(crate) fn happenings(trace: &Trace) -> Vec<(Moment, Happening)> {
    let mut all = Vec::new();
    let mut lasts = |open, Interval { begin, end, thread }| {
        all.push((Moment { tick: begin, thread }, Happening::Begins(open)));
        all.push((Moment { tick: end, thread }, Happening::Ends(open)));
    };
    trace.scopes().for_each(|(id, scope)| lasts(Open::Scope(id), scope.interval));
    trace.operators().for_each(|(id, operator)| lasts(Open::Operator(id), operator.interval));
    for (number, (_, block)) in trace.blocks().enumerate() {
        all.extend(block.birth.map(|birth| (birth, Happening::Born(number))));
        all.extend(block.death.map(|death| (death, Happening::Dies(number))));
    }
    all.sort_by_key(|(moment, _)| moment.tick);
    all
}
