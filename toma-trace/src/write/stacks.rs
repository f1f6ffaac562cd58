//! Call stacks of the births of blocks.

use std::collections::BTreeMap;

use crate::happenings::{Happening, happenings};
use crate::record::Open;
use crate::tables::{Moment, ScopeKind, ThreadId, Trace};

/// A function with its line, or an operator.
#[derive(Clone, Debug)]
pub(super) struct SourceFrame<'a> {
    /// Empty if there is none.
    pub(super) file: &'a str,
    /// 0 if there is none.
    pub(super) line: u32,
    pub(super) name: &'a str,
}

/// Returns the frames of each block's birth, innermost first, in the order of the blocks in the trace.
pub(super) fn stacks(trace: &Trace) -> Vec<Vec<SourceFrame<'_>>> {
    let mut stacks = vec![Vec::new(); trace.blocks().count()];
    // Open operators and scopes on each thread, innermost last.
    let mut threads = BTreeMap::<ThreadId, Vec<Open>>::new();
    for (Moment { thread, .. }, happening) in happenings(trace) {
        let open = threads.entry(thread).or_default();
        match happening {
            Happening::Begins(begun) => open.push(begun),
            Happening::Ends(_) => drop(open.pop()),
            Happening::Born(block) => stacks[block] = frames(trace, open),
            Happening::Dies(_) => {}
        }
    }
    stacks
}

/// Returns the operator, and each function with its line, innermost first.
fn frames<'a>(trace: &'a Trace, open: &[Open]) -> Vec<SourceFrame<'a>> {
    let mut frames = Vec::new();
    let mut line = None;
    for open in open.iter().rev() {
        match *open {
            Open::Operator(id) => frames.push(SourceFrame { file: "", line: 0, name: &trace[id].name }),
            Open::Scope(id) => {
                let label = &trace[id].label;
                let file = label.file.as_deref().unwrap_or_default();
                match label.kind {
                    ScopeKind::Line => line = line.or(label.line),
                    ScopeKind::Function => {
                        let line = line.take().or(label.line).unwrap_or_default();
                        frames.push(SourceFrame { file, line, name: &label.name });
                    }
                    _ => frames.push(SourceFrame {
                        file,
                        line: label.line.unwrap_or_default(),
                        name: &label.name,
                    }),
                }
            }
        }
    }
    frames
}
