//! The slow, obvious twin: predicts a call with costs under `Halve` from the rules alone.
//!
//! - An item costs at least 1. A piece is as many items as cost at most the step together, and at least one.
//! - A piece of several items that fails begins a search, unless one runs. The state before it is the snapshot.
//!   The next size is half of the piece's own cost.
//! - While a search runs, no piece reaches beyond the piece that began it, and the step does not grow.
//! - When all items of that piece have succeeded, the failure was real: the learned state stays.
//! - A single item that fails above the floor is left out. The state is the snapshot again, and the search ends.
//! - A failure at the floor goes through at once. A single item there is left out if a piece as heavy has
//!   succeeded, in this call and since the last item that was left out at the floor.

use std::ops::Range;

/// One call: costs of the items, sizes that the call may use, and the memory that decides which pieces fail.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) costs: Vec<u64>,
    pub(crate) initial: u64,
    pub(crate) min: u64,
    pub(crate) multiple_of: u64,
    /// Bytes that the items really need. Their cost may be a bad estimate of them.
    pub(crate) needs: Vec<u64>,
    /// Pieces that need more than this run out of memory.
    pub(crate) memory: u64,
}

/// Everything a call must do.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Story {
    pub(crate) attempts: Vec<Range<usize>>,
    pub(crate) done: Vec<Range<usize>>,
    pub(crate) left_out: Vec<usize>,
    /// The piece whose failure goes through at once.
    pub(crate) gave_up: Option<Range<usize>>,
    pub(crate) settled: Option<u64>,
}

/// Learned state of a call.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    step: u64,
    shrunk: bool,
    settled: Option<u64>,
    settled_at: Option<u64>,
}

/// A search for an item that fits nowhere.
#[derive(Clone, Copy, Debug)]
struct Search {
    /// End of the piece that began the search.
    end: usize,
    snapshot: State,
}

impl Case {
    pub(crate) fn fails(&self, piece: &Range<usize>) -> bool {
        self.needs[piece.clone()].iter().sum::<u64>() > self.memory
    }

    pub(crate) fn cost(&self, piece: &Range<usize>) -> u64 {
        self.costs[piece.clone()].iter().map(|&cost| cost.max(1)).sum()
    }

    fn floor(&self) -> u64 {
        self.min.max(self.multiple_of).next_multiple_of(self.multiple_of)
    }

    fn cap(&self) -> u64 {
        self.initial / self.multiple_of * self.multiple_of
    }

    fn fit(&self, size: u64) -> u64 {
        (size / self.multiple_of * self.multiple_of).clamp(self.floor(), self.cap())
    }

    /// Returns the story of the call, given the size that an earlier call has settled.
    pub(crate) fn replay(&self, known: Option<u64>) -> Story {
        let mut story = Story::default();
        let step = known.map_or(self.cap(), |size| self.fit(size));
        let mut now = State { step, ..State::default() };
        let (mut position, mut search) = (0, None::<Search>);
        let mut heaviest = None;
        while position < self.costs.len() {
            let end = search.map_or(self.costs.len(), |search| search.end);
            let piece = self.pack(position..end, now.step);
            let cost = self.cost(&piece);
            story.attempts.push(piece.clone());
            if !self.fails(&piece) {
                now.succeeds(cost);
                heaviest = heaviest.max(Some(cost));
                position = piece.end;
                story.done.push(piece);
                search = search.filter(|search| position < search.end);
            } else if piece.len() > 1 && cost > self.floor() {
                search = search.or(Some(Search { end: piece.end, snapshot: now }));
                now = State { step: self.fit(cost / 2), shrunk: true, settled: None, ..now };
            } else if piece.len() == 1 && (cost > self.floor() || heaviest >= Some(cost)) {
                if cost <= self.floor() {
                    heaviest = None;
                }
                now = search.take().map_or(now, |search| search.snapshot);
                story.left_out.push(position);
                position += 1;
            } else {
                story.gave_up = Some(piece);
                return story;
            }
        }
        story.settled = now.settled;
        story
    }

    /// Returns the first item and as many more as fit the step together with it.
    fn pack(&self, items: Range<usize>, step: u64) -> Range<usize> {
        let mut end = items.start + 1;
        while end < items.end && self.cost(&(items.start..end + 1)) <= step {
            end += 1;
        }
        items.start..end
    }
}

impl State {
    /// Settles the cost of the heaviest piece that filled more than half of the step.
    fn succeeds(&mut self, cost: u64) {
        if self.shrunk && cost <= self.step && 2 * cost > self.step {
            let before = self.settled.filter(|_| self.settled_at == Some(self.step)).unwrap_or(0);
            (self.settled, self.settled_at) = (Some(before.max(cost)), Some(self.step));
        }
    }
}
