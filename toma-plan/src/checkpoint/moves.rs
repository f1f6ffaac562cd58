//! Plans that differ from another plan in one action.
//!
//! All are first built as sequences of runs. [`laid`] then decides which runs hold their input, and drops
//! runs that serve nothing.

use super::simulator::PlanMemory;
use super::{Action, Costs};

/// Changes that save time: a repeat left out, or a stage saved in a way that costs less.
pub(super) fn shortcuts<'a>(
    costs: &'a Costs,
    actions: &'a [Action],
) -> impl Iterator<Item = Vec<Action>> + 'a {
    (0..actions.len()).flat_map(move |index| {
        without(costs, actions, index).into_iter().chain(saved_otherwise(costs, actions, index))
    })
}

/// Removes a repeat. If it saved its stage, the previous run of that stage saves instead.
fn without(costs: &Costs, actions: &[Action], index: usize) -> Option<Vec<Action>> {
    let removed = actions[index];
    if index < costs.stages().len() || matches!(removed, Action::Backward(_)) {
        return None;
    }
    let mut left = actions.to_vec();
    left.remove(index);
    if matches!(removed, Action::Save { .. }) {
        let before = actions[..index].iter().rposition(|action| action.stage() == removed.stage())?;
        left[before] = removed;
    }
    Some(left)
}

fn saved_otherwise(costs: &Costs, actions: &[Action], index: usize) -> impl Iterator<Item = Vec<Action>> {
    let Action::Save { stage, way: current, holds_input } = actions[index] else {
        return Vec::new().into_iter();
    };
    let cost = &costs.stages()[stage];
    let extra = |way: &usize| cost.way(*way).map(|saving| saving.extra_seconds);
    let cheaper = (0..cost.ways()).filter(|way| extra(way) < extra(&current));
    let changed = cheaper.map(|way| {
        let mut changed = actions.to_vec();
        changed[index] = Action::Save { stage, way, holds_input };
        changed
    });
    changed.collect::<Vec<_>>().into_iter()
}

/// A change that takes more time and frees bytes for a while.
#[derive(Clone, Copy, Debug)]
pub(super) enum Detour {
    /// An output held until the action `index` is instead recomputed before that action, from `start` on.
    Remade { index: usize, start: usize },
    /// A stage saved by its first run is instead saved by a repeat, for which stages from `start` on run again.
    SavedLater { stage: usize, start: usize },
}

impl Detour {
    pub(super) fn taken(self, actions: &[Action]) -> Vec<Action> {
        match self {
            Self::Remade { index, start } => {
                let (before, behind) = actions.split_at(index);
                let made = (start..actions[index].stage()).map(Action::Keep);
                before.iter().copied().chain(made).chain(behind.iter().copied()).collect()
            }
            Self::SavedLater { stage, start } => {
                let unsaved = |action| if action == actions[stage] { Action::Keep(stage) } else { action };
                let end = actions.iter().position(|action| *action == Action::Backward(stage));
                let (before, behind) = actions.split_at(end.expect("every stage has a backward"));
                let made = (start..stage).map(Action::Keep).chain([actions[stage]]);
                before.iter().copied().map(unsaved).chain(made).chain(behind.iter().copied()).collect()
            }
        }
    }
}

pub(super) fn detours(costs: &Costs, actions: &[Action]) -> Vec<Detour> {
    let mut detours = Vec::new();
    let mut memory = PlanMemory::new(costs);
    for (index, &action) in actions.iter().enumerate() {
        let stage = action.stage();
        if index < costs.stages().len() {
            detours.extend(saved_later(costs, action));
        } else if stage > 0 && memory.holds(stage - 1) && actions[index - 1].stage() + 1 != stage {
            // Starts at the stage before, then one stage earlier each time, down to one whose input is held.
            let nearest = (0..stage).rev().find(|start| memory.has_input(*start)).unwrap_or(0);
            detours.extend((nearest..stage).rev().map(|start| Detour::Remade { index, start }));
        }
        memory.step(action).expect("only legal actions are changed");
    }
    detours
}

fn saved_later(costs: &Costs, first_run: Action) -> impl Iterator<Item = Detour> {
    let stage = first_run.stage();
    let stages = &costs.stages()[..=stage];
    // The output of a stage that cannot be repeated is always held.
    let nearest = stages.iter().rposition(|stage| stage.must_save).map_or(0, |at| at + 1);
    let is_saved = matches!(first_run, Action::Save { .. });
    let starts = if is_saved { nearest..stage + 1 } else { 0..0 };
    starts.rev().map(move |start| Detour::SavedLater { stage, start })
}

/// Lays out runs so that each holds its input until the last use, and removes repeats that serve nothing.
pub(super) fn laid(stages: usize, actions: &[Action]) -> Vec<Action> {
    // True if the output is used, from here on, before it is made again.
    let mut is_used = vec![false; stages];
    let mut laid = Vec::with_capacity(actions.len());
    for (index, &action) in actions.iter().enumerate().rev() {
        let stage = action.stage();
        let holds_input = stage > 0 && is_used[stage - 1];
        laid.push(match action {
            Action::Backward(_) => action,
            Action::Save { way, .. } => Action::Save { stage, way, holds_input },
            _ if index >= stages && !is_used[stage] => continue,
            _ if holds_input => Action::Keep(stage),
            _ => Action::Drop(stage),
        });
        if !matches!(action, Action::Backward(_)) {
            is_used[stage] = false;
        }
        if stage > 0 {
            is_used[stage - 1] = true;
        }
    }
    laid.reverse();
    laid
}
