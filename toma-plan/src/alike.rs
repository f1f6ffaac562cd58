//! Checks that traces recorded at several sizes come from the same step.

use thiserror::Error;
use toma_trace::{Operator, OperatorId, Place, Tick, Trace};

/// Reasons why traces do not come from the same step at several sizes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what the values are")]
#[non_exhaustive]
pub enum Unlike {
    /// A line through the sizes needs at least two points.
    #[error("{traces} traces: at least two are compared")]
    TooFew { traces: usize },
    /// A size is zero, or two traces have it.
    #[error("size {size}: must be at least 1, and of one trace only")]
    Size { size: u32 },
    /// The steps called different operators; this is the first difference.
    #[error("{operator} is {} at size {}, but {} at size {}", found[0], sizes[0], found[1], sizes[1])]
    Operators { operator: OperatorId, sizes: [u32; 2], found: [String; 2] },
    /// The steps made different blocks of memory that outlive their operators; this is the first difference.
    #[error("{span} {} blocks in {place} at size {}, but {} at size {}", found[0], sizes[0], found[1], sizes[1])]
    Blocks { span: String, place: Place, sizes: [u32; 2], found: [usize; 2] },
    /// The operators used different tensors; this is the first such operator.
    #[error("{operator} `{name}` touches other tensors at size {} than at size {}", sizes[0], sizes[1])]
    Uses { operator: OperatorId, name: String, sizes: [u32; 2] },
}

/// A trace and the size of its step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SizedTrace<'a> {
    pub(crate) size: u32,
    pub(crate) trace: &'a Trace,
    /// Operators that begin at this tick or later are not compared.
    pub(crate) until: Tick,
}

impl<'a> SizedTrace<'a> {
    pub(crate) fn operators(self) -> impl Iterator<Item = (OperatorId, &'a Operator)> {
        self.trace.operators().take_while(move |(_, operator)| operator.interval.begin < self.until)
    }
}

/// Checks that both steps called the same operators in the same order.
pub(crate) fn same_operators(first: SizedTrace<'_>, second: SizedTrace<'_>) -> Result<(), Unlike> {
    let [mut one, mut other] = [first, second].map(SizedTrace::operators);
    loop {
        let next = [one.next(), other.next()];
        let names = next.map(|operator| operator.map(|(_, operator)| &*operator.name));
        let Some((operator, _)) = next[0].or(next[1]) else { return Ok(()) };
        if names[0] != names[1] {
            let found = names.map(|name| name.map_or("missing".to_owned(), |name| format!("`{name}`")));
            return Err(Unlike::Operators { operator, sizes: [first.size, second.size], found });
        }
    }
}
