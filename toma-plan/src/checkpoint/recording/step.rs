//! The actions of a plan, in the form in which a program executes them.

use crate::checkpoint::Action;

/// One action of a plan.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// One of the constants.
    pub kind: u32,
    /// The stage that runs.
    pub stage: u32,
    /// True if the output of the run is held in addition to the tensors of its kind, so that a later run starts there.
    pub holds_output: bool,
}

impl Step {
    /// Runs the stage and drops its input.
    pub const DROP: u32 = 0;
    /// Runs the stage and holds its input.
    pub const KEEP: u32 = 1;
    /// Runs the stage and holds all that its backward needs.
    pub const SAVE: u32 = 2;
    /// Lets the backward of the stage run.
    pub const BACKWARD: u32 = 3;
    /// Runs the stage, holds what its backward needs except its input, and drops the input.
    pub const SAVE_ALONE: u32 = 4;

    /// Returns the steps of a plan for so many stages.
    ///
    /// In the first run, the next stage takes the output from the program. So a saved stage holds its output only for a
    /// recomputation of the next stage. In backward, a run is for its own backward or for a later run.
    pub fn all(actions: &[Action], stages: usize) -> Vec<Self> {
        let repeated = actions.iter().skip(stages).filter(|action| !matches!(action, Action::Backward(_)));
        let mut is_repeated = vec![false; stages + 1];
        repeated.for_each(|action| is_repeated[action.stage()] = true);
        let holds_output = |at: usize, kind: u32, stage: usize| {
            if at < stages {
                [Self::SAVE, Self::SAVE_ALONE].contains(&kind) && is_repeated[stage + 1]
            } else {
                actions.get(at + 1) != Some(&Action::Backward(stage))
            }
        };
        let step = |(at, action): (usize, &Action)| {
            let (kind, stage) = (kind_of(*action), action.stage());
            let holds_output = holds_output(at, kind, stage);
            Self { kind, stage: u32::try_from(stage).expect("stages are few"), holds_output }
        };
        actions.iter().enumerate().map(step).collect()
    }
}

fn kind_of(action: Action) -> u32 {
    match action {
        Action::Drop(_) => Step::DROP,
        Action::Keep(_) => Step::KEEP,
        Action::Save { holds_input: true, .. } => Step::SAVE,
        Action::Save { .. } => Step::SAVE_ALONE,
        Action::Backward(_) => Step::BACKWARD,
    }
}
