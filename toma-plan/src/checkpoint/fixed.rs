//! Plans that do not depend on a budget.

use super::{Action, Costs};

/// Saves every stage.
pub(super) fn keep_all(costs: &Costs) -> Vec<Action> {
    let count = costs.stages().len();
    (0..count).map(Action::save).chain((0..count).rev().map(Action::Backward)).collect()
}

/// Cuts stages into segments of equal length, as pytorch-memonger does, and runs each segment a second time.
pub(super) fn sqrt_n(costs: &Costs) -> Vec<Action> {
    let count = costs.stages().len();
    let segments = count.isqrt();
    let starts: Vec<_> = (0..segments).map(|segment| segment * (count / segments)).collect();
    let first_runs = (0..count).map(|stage| match costs.stages()[stage].must_save {
        true => Action::Save { stage, way: 0, holds_input: starts.contains(&stage) },
        false if starts.contains(&stage) => Action::Keep(stage),
        false => Action::Drop(stage),
    });
    let mut actions: Vec<_> = first_runs.collect();
    let mut end = count;
    for start in starts.into_iter().rev() {
        let repeated = (start..end).filter(|stage| !costs.stages()[*stage].must_save);
        actions.extend(repeated.map(Action::save));
        actions.extend((start..end).rev().map(Action::Backward));
        end = start;
    }
    actions
}
