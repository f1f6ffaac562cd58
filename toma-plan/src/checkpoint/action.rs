//! Actions, the steps of a plan.

use std::fmt;

/// One step of a plan. Stages are counted from 0.
///
/// ```
/// use toma_plan::checkpoint::{Action, Costs, Plan, Stage};
///
/// // Of two stages the first is recomputed: its input is there, and its activations are dropped.
/// let costs = Costs::new(vec![Stage { output_bytes: 1, saved_bytes: 4, ..Stage::default() }; 2])?;
/// let save = |stage| Action::Save { stage, way: 0, holds_input: true };
/// let actions = vec![Action::Keep(0), save(1), Action::Backward(1), save(0), Action::Backward(0)];
/// assert_eq!(Plan::new(&costs, actions)?.repeats().collect::<Vec<_>>(), [1, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Runs a stage without saving it, and drops its input.
    Drop(usize),
    /// Runs a stage without saving it, and holds its input.
    Keep(usize),
    /// Runs a stage and saves the activations that its backward needs.
    Save {
        /// The stage.
        stage: usize,
        /// The way of saving: 0 saves all, `n` uses the stage's `savings[n - 1]`.
        way: usize,
        /// True if the input is held for backward. Otherwise it is dropped, and recomputed before backward.
        holds_input: bool,
    },
    /// Runs the backward of a stage, which is the last one whose backward has not run. Drops the saved
    /// activations of the stage, its output and its input.
    Backward(usize),
}

impl Action {
    /// Returns the stage whose forward or backward the action runs.
    pub fn stage(self) -> usize {
        match self {
            Self::Drop(stage) | Self::Keep(stage) | Self::Backward(stage) | Self::Save { stage, .. } => stage,
        }
    }

    /// True if running the stage drops its input.
    pub(super) fn drops_input(self) -> bool {
        matches!(self, Self::Drop(_) | Self::Save { holds_input: false, .. })
    }

    /// Saves all of a stage and holds its input.
    pub(super) fn save(stage: usize) -> Self {
        Self::Save { stage, way: 0, holds_input: true }
    }
}

/// `drop 3`, `keep 3`, `save 3`, `save 3 in way 1`, `save 3 without input`, `backward 3`.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Drop(stage) => write!(f, "drop {stage}"),
            Self::Keep(stage) => write!(f, "keep {stage}"),
            Self::Backward(stage) => write!(f, "backward {stage}"),
            Self::Save { stage, way, holds_input } => {
                write!(f, "save {stage}")?;
                if way > 0 {
                    write!(f, " in way {way}")?;
                }
                f.write_str(if holds_input { "" } else { " without input" })
            }
        }
    }
}
