//! Blocks of several traces of one step, matched.

use std::collections::{BTreeMap, BTreeSet};

use toma_trace::{Block, OperatorId, Place, StorageId, Trace};

use super::fit::Point;
use crate::alike::{Recorded, Unlike, same_operators};

/// A block of the trace of the largest size, and what it took at each size.
#[derive(Debug)]
pub(super) struct Matched<'a> {
    pub(super) storage: StorageId,
    pub(super) block: &'a Block,
    pub(super) points: Vec<Point>,
}

/// Matches the blocks of traces of rising sizes, by the operator that makes them and the order in which it does.
///
/// Scratch dies within its operator. Kernels take more or less of it by size, so scratch that is missing at a size
/// took nothing there.
pub(super) fn matched<'a>(traces: &[Recorded<'a>]) -> Result<Vec<Matched<'a>>, Unlike> {
    let [others @ .., base] = traces else { return Err(Unlike::TooFew { traces: 0 }) };
    for other in others {
        same_operators(*other, *base)?;
    }
    let groups: Vec<_> = traces.iter().map(|traced| (traced.size, groups(traced.trace))).collect();
    let [others @ .., (size, largest)] = &groups[..] else { return Ok(Vec::new()) };
    for (other_size, other) in others {
        same_blocks([*other_size, *size], [other, largest], base.trace)?;
    }
    let blocks = largest.iter().flat_map(|(group, blocks)| {
        let numbered = blocks.iter().enumerate();
        numbered.map(|(position, (storage, block))| {
            let points = groups
                .iter()
                .map(|(size, groups)| Point { size: *size, bytes: bytes(groups, group, position) });
            Matched { storage: *storage, block, points: points.collect() }
        })
    });
    Ok(blocks.collect())
}

/// Blocks that are matched in their order.
type Groups<'a> = BTreeMap<Group<'a>, Vec<(StorageId, &'a Block)>>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group<'a> {
    span: Span,
    place: &'a Place,
    is_scratch: bool,
}

/// When blocks were born.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Span {
    /// They were there before the trace.
    Before,
    /// In no operator, after so many operators had begun.
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
            // What stays was there, and is no part of the growth.
            (None, None) if block.death.is_none() => continue,
            (None, None) => Span::Before,
        };
        let end = match span {
            Span::Before => None,
            Span::After(count) => begins.get(count).copied(),
            Span::Within(operator) => Some(trace[operator].interval.end),
        };
        let is_scratch = block.death.is_some_and(|death| end.is_some_and(|end| death.tick < end));
        groups.entry(Group { span, place: &block.place, is_scratch }).or_default().push((storage, block));
    }
    // Storages stand in the order of their first blocks.
    for blocks in groups.values_mut() {
        blocks.sort_by_key(|(_, block)| block.birth.map(|birth| birth.tick));
    }
    groups
}

fn bytes(groups: &Groups<'_>, group: &Group<'_>, position: usize) -> u64 {
    let block = groups.get(group).and_then(|blocks| blocks.get(position));
    block.map_or(0, |(_, block)| block.bytes)
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
