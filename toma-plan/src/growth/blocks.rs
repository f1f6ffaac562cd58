//! Live bytes at each moment of a step, as lines over sizes.

use toma_trace::{Interval, OperatorId, Place, ScopeKind, StorageId, Tick, Trace};

use super::fit::{Fit, Point, fit};
use super::line::Line;
use super::matched::MatchedBlock;
use super::pieces::Pieces;

/// A block of memory, and its bytes at every size.
#[derive(Clone, Debug)]
pub(super) struct Grows {
    pub(super) storage: StorageId,
    pub(super) place: Place,
    /// `None` if the block was there before the trace. It then counts as zero, and as negative after its death.
    pub(super) birth: Option<Tick>,
    pub(super) death: Option<Tick>,
    pub(super) operator: Option<OperatorId>,
    pub(super) fit: Fit,
    /// Bytes of the block at sizes that were recorded.
    points: Vec<Point>,
}

impl Grows {
    pub(super) fn of(matched: &MatchedBlock<'_>) -> Self {
        let MatchedBlock { storage, block, points } = matched;
        Self {
            storage: *storage,
            place: block.place.clone(),
            birth: block.birth.map(|birth| birth.tick),
            death: block.death.map(|death| death.tick),
            operator: block.operator,
            fit: fit(points),
            points: points.clone(),
        }
    }

    /// Returns the bytes of the block at a recorded size; `None` if they are not known.
    pub(super) fn seen(&self, size: u64) -> Option<u64> {
        let point = self.points.iter().find(|point| u64::from(point.size) == size);
        point.map(|point| point.bytes)
    }

    pub(super) fn is_alive(&self, at: Tick) -> bool {
        self.birth.is_some_and(|birth| birth <= at) && self.death.is_none_or(|death| at < death)
    }
}

/// Returns the end of the first piece, and of the second if there is one.
pub(super) fn ends(trace: &Trace) -> (Tick, Option<Tick>) {
    let mut attempts = Vec::<Interval>::new();
    for (_, scope) in trace.scopes().filter(|(_, scope)| scope.label.kind == ScopeKind::Attempt) {
        // Loops inside a piece are part of it.
        if attempts.last().is_none_or(|last| last.end < scope.interval.begin) {
            attempts.push(scope.interval);
        }
    }
    match attempts[..] {
        [] => (trace.end(), None),
        [only] => (only.end, None),
        [_, second, ..] => (second.begin, Some(second.end)),
    }
}

pub(super) fn pieces(blocks: &[Grows], place: &Place, trace: &Trace, line: impl Fn(&Fit) -> Line) -> Pieces {
    let levels = levels(blocks, place, line);
    let until = |end: Tick| levels.partition_point(|(tick, _)| *tick <= end);
    let lines: Vec<_> = levels.iter().map(|(_, line)| *line).collect();
    let (first, second) = ends(trace);
    Pieces::of(&lines[..until(first)], second.map(|end| &lines[until(first)..until(end)]))
}

/// Returns the live bytes in a place at the start, and after each tick at which they changed.
pub(super) fn levels(blocks: &[Grows], place: &Place, line: impl Fn(&Fit) -> Line) -> Vec<(Tick, Line)> {
    let of_place = blocks.iter().filter(|block| block.place == *place);
    let mut changes: Vec<_> = of_place
        .flat_map(|block| {
            let line = line(&block.fit);
            let birth = block.birth.map(|tick| (tick, line));
            birth.into_iter().chain(block.death.map(|tick| (tick, Line::default() - line)))
        })
        .collect();
    changes.sort_unstable_by_key(|(tick, _)| *tick);
    let mut levels = vec![(Tick::START, Line::default())];
    for (tick, change) in changes {
        let (_, level) = levels[levels.len() - 1];
        levels.push((tick, level + change));
    }
    levels
}
