//! Call stacks of the births of blocks.

use std::collections::BTreeMap;

use crate::happenings::{Happening, happenings};
use crate::record::Open;
use crate::tables::{Interval, ScopeKind, ThreadId, Trace};

/// A function with its line, or an operator.
#[derive(Clone, Debug)]
pub(super) struct Frame<'a> {
    /// Empty if there is none.
    pub(super) file: &'a str,
    /// 0 if there is none.
    pub(super) line: u32,
    pub(super) name: &'a str,
}

/// Returns the frames of each block's birth, innermost first, in the order of the blocks in the trace.
pub(super) fn stacks(trace: &Trace) -> Vec<Vec<Frame<'_>>> {
    let mut stacks = vec![Vec::new(); trace.blocks().count()];
    let mut threads = Threads::new();
    for (_, happening) in happenings(trace) {
        match happening {
            Happening::Begins(id) => begins(&mut threads, trace[id].interval, Open::Scope(id)),
            Happening::Ends(id) => ends(&mut threads, trace[id].interval),
            Happening::OperatorBegins(id) => begins(&mut threads, trace[id].interval, Open::Operator(id)),
            Happening::OperatorEnds(id) => ends(&mut threads, trace[id].interval),
            Happening::Born(block, thread) => {
                stacks[block] = threads.get(&thread).map_or_else(Vec::new, |open| frames(trace, open));
            }
            Happening::Dies(..) => {}
        }
    }
    stacks
}

/// Open operators and scopes on each thread, innermost last.
type Threads = BTreeMap<ThreadId, Vec<Open>>;

fn begins(threads: &mut Threads, interval: Interval, open: Open) {
    threads.entry(interval.thread).or_default().push(open);
}

fn ends(threads: &mut Threads, interval: Interval) {
    threads.entry(interval.thread).or_default().pop();
}

/// Returns the operator, and each function with its line, innermost first.
fn frames<'a>(trace: &'a Trace, open: &[Open]) -> Vec<Frame<'a>> {
    let mut frames = Vec::new();
    let mut line = None;
    for open in open.iter().rev() {
        match *open {
            Open::Operator(id) => frames.push(Frame { file: "", line: 0, name: &trace[id].name }),
            Open::Scope(id) => {
                let label = &trace[id].label;
                let file = label.file.as_deref().unwrap_or_default();
                match label.kind {
                    ScopeKind::Line => line = line.or(label.line),
                    ScopeKind::Function => {
                        let line = line.take().or(label.line).unwrap_or_default();
                        frames.push(Frame { file, line, name: &label.name });
                    }
                    _ => frames.push(Frame { file, line: label.line.unwrap_or_default(), name: &label.name }),
                }
            }
        }
    }
    frames
}
