//! Matches the blocks of several traces of one step.

use std::collections::{BTreeMap, BTreeSet};

use toma_trace::{Block, OperatorId, Place, StorageId, Trace};

use super::fit::Point;
use crate::alike::{SizedTrace, Unlike, same_operators};

/// Traces of one step whose blocks are matched.
#[derive(Debug)]
pub(super) struct Matched<'a> {
    /// The base: the trace with the most scratch, and of several the largest.
    pub(super) trace: &'a Trace,
    pub(super) blocks: Vec<MatchedBlock<'a>>,
}

/// A block of the base, and its bytes at each size.
#[derive(Debug)]
pub(super) struct MatchedBlock<'a> {
    pub(super) storage: StorageId,
    pub(super) block: &'a Block,
    pub(super) points: Vec<Point>,
}

/// Matches the blocks of traces of rising sizes, by the operator that makes them and by their order within it.
///
/// Scratch dies within its operator. Kernels take scratch from some size on, so scratch that is missing in the smaller
/// traces took zero bytes. A trace by shapes alone has none, so the bytes of scratch that is missing above are unknown.
pub(super) fn matched<'a>(traces: &[SizedTrace<'a>]) -> Result<Matched<'a>, Unlike> {
    let groups: Vec<_> = traces.iter().map(|traced| groups(traced.trace)).collect();
    for (pair, groups) in traces.windows(2).zip(groups.windows(2)) {
        same_operators(pair[0], pair[1])?;
        same_blocks([pair[0].size, pair[1].size], [&groups[0], &groups[1]], pair[1].trace)?;
    }
    let base = (0..traces.len()).max_by_key(|index| scratch(&groups[*index]));
    let base = base.ok_or(Unlike::TooFew { traces: 0 })?;
    let blocks = groups[base].iter().flat_map(|(group, blocks)| {
        let numbered = blocks.iter().enumerate();
        numbered.map(|(position, (storage, block))| {
            let bytes = groups.iter().map(|groups| bytes(groups, group, position));
            MatchedBlock { storage: *storage, block, points: points(traces, bytes) }
        })
    });
    Ok(Matched { trace: traces[base].trace, blocks: blocks.collect() })
}

/// Returns the bytes of a block at each size at which they are known.
fn points(traces: &[SizedTrace<'_>], bytes: impl Iterator<Item = Option<u64>>) -> Vec<Point> {
    let mut was_there = false;
    let known = traces.iter().zip(bytes).filter(|(_, bytes)| {
        was_there |= bytes.is_some();
        bytes.is_some() || !was_there
    });
    known.map(|(traced, bytes)| Point { size: traced.size, bytes: bytes.unwrap_or(0) }).collect()
}

/// Blocks that are matched in their order.
type Groups<'a> = BTreeMap<BlockGroup<'a>, Vec<(StorageId, &'a Block)>>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BlockGroup<'a> {
    span: Span,
    place: &'a Place,
    is_scratch: bool,
}

/// The time at which blocks were born.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Span {
    /// Before the trace.
    Before,
    /// Outside of operators, after so many operators had begun.
    After(usize),
    Within(OperatorId),
}

fn groups(trace: &Trace) -> Groups<'_> {
    let begins: Vec<_> = trace.operators().map(|(_, operator)| operator.interval.begin).collect();
    let mut groups = Groups::new();
    for (storage, block) in trace.blocks() {
        let span = match (block.operator, block.birth) {
            (Some(operator), _) => Span::Within(operator),
            (None, Some(birth)) => Span::After(begins.partition_point(|begin| *begin < birth.tick)),
            // A block that exists before and after the trace is no part of the growth.
            (None, None) if block.death.is_none() => continue,
            (None, None) => Span::Before,
        };
        let end = match span {
            Span::Before => None,
            Span::After(count) => begins.get(count).copied(),
            Span::Within(operator) => Some(trace[operator].interval.end),
        };
        let is_scratch = block.death.is_some_and(|death| end.is_some_and(|end| death.tick < end));
        groups
            .entry(BlockGroup { span, place: &block.place, is_scratch })
            .or_default()
            .push((storage, block));
    }
    groups
}

fn bytes(groups: &Groups<'_>, group: &BlockGroup<'_>, position: usize) -> Option<u64> {
    groups.get(group)?.get(position).map(|(_, block)| block.bytes)
}

/// Returns the number of scratch blocks.
fn scratch(groups: &Groups<'_>) -> usize {
    groups.iter().filter(|(group, _)| group.is_scratch).map(|(_, blocks)| blocks.len()).sum()
}

fn same_blocks(sizes: [u32; 2], groups: [&Groups<'_>; 2], trace: &Trace) -> Result<(), Unlike> {
    let kept: BTreeSet<_> =
        groups.iter().flat_map(|groups| groups.keys()).filter(|group| !group.is_scratch).collect();
    for group in kept {
        let found = groups.map(|groups| groups.get(group).map_or(0, Vec::len));
        if found[0] != found[1] {
            let span = group.span.describe(trace);
            return Err(Unlike::Blocks { span, place: group.place.clone(), sizes, found });
        }
    }
    Ok(())
}

impl Span {
    fn describe(self, trace: &Trace) -> String {
        match self {
            Self::Before => "there were, and were given back,".to_owned(),
            Self::After(0) => "before the first operator there are".to_owned(),
            Self::After(count) => format!("after {count} operators there are"),
            Self::Within(id) => format!("{id} `{}` makes", trace[id].name),
        }
    }
}
