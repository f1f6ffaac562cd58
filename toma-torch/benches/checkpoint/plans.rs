//! The plans that are compared.

use std::error::Error;

use toma_torch::checkpoint::{Action, Costs, Plan, Solver};

use crate::net::GROUPS;

/// Numbers of blocks that pytorch-memonger's own ResNet-152 runs together; the stem and the head are saved.
const SEGMENTS: [&[usize]; 4] = [&[3], &[4, 4], &[6; 6], &[3]];

/// A plan with its name.
pub(crate) struct Named {
    pub(crate) name: &'static str,
    pub(crate) plan: Plan,
}

/// Returns plans to compare with memonger's, which has taken `its_bytes`.
pub(crate) fn ours(costs: &Costs, memonger: &Plan, its_bytes: u64) -> Result<[Named; 3], Box<dyn Error>> {
    // The curve rises in bytes and falls in time.
    let as_fast = costs.curve().into_iter().find(|point| point.seconds <= memonger.seconds());
    let as_fast = as_fast.map_or(its_bytes, |point| point.bytes);
    let auto = |name, bytes| Ok::<_, Box<dyn Error>>(Named { name, plan: costs.plan(bytes, Solver::Auto)? });
    Ok([
        auto("ours in its bytes", its_bytes.max(costs.least_bytes()))?,
        auto("ours in its time", as_fast)?,
        auto("ours, least", costs.least_bytes())?,
    ])
}

/// memonger's plan: each segment saves its input, and runs a second time.
pub(crate) fn memonger() -> Vec<Action> {
    let last = 1 + GROUPS.iter().sum::<usize>();
    let save = |stage| Action::Save { stage, way: 0, holds_input: true };
    let mut actions = vec![save(0)];
    let mut segments = Vec::new();
    let mut start = 1;
    for count in SEGMENTS.into_iter().flatten() {
        actions.push(Action::Keep(start));
        actions.extend((start + 1..start + count).map(Action::Drop));
        segments.push(start..start + count);
        start += count;
    }
    actions.extend([save(last), Action::Backward(last)]);
    for segment in segments.into_iter().rev() {
        actions.extend(segment.clone().map(save));
        actions.extend(segment.rev().map(Action::Backward));
    }
    actions.push(Action::Backward(0));
    actions
}
