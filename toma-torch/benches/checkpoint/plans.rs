//! The plans that are compared.

use std::error::Error;

use toma_torch::checkpoint::{Action, Costs, Plan, Solver};

use crate::net::GROUPS;

/// Blocks that pytorch-memonger's own ResNet-152 runs together; the stem and the head are saved.
const SEGMENTS: [&[usize]; 4] = [&[3], &[4, 4], &[6; 6], &[3]];

/// A plan with what it is called.
pub(crate) struct Named {
    pub(crate) name: &'static str,
    pub(crate) plan: Plan,
}

/// All plans; memonger's comes first.
pub(crate) fn plans(costs: &Costs) -> Result<[Named; 4], Box<dyn Error>> {
    let memonger = Plan::new(costs, memonger())?;
    // The curve rises in bytes and falls in time.
    let as_fast = costs.curve().into_iter().find(|point| point.seconds <= memonger.seconds());
    let as_fast = as_fast.map_or(memonger.peak_bytes(), |point| point.bytes);
    let auto = |name, bytes| Ok::<_, Box<dyn Error>>(Named { name, plan: costs.plan(bytes, Solver::Auto)? });
    let in_bytes = auto("ours in its bytes", memonger.peak_bytes())?;
    let in_time = auto("ours in its time", as_fast)?;
    let least = auto("ours, least", costs.least_bytes())?;
    Ok([Named { name: "memonger", plan: memonger }, in_bytes, in_time, least])
}

/// Each segment holds its input, and runs a second time.
fn memonger() -> Vec<Action> {
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
