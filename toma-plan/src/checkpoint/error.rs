//! What goes wrong, with its values.

use thiserror::Error;

use super::{Action, Solver};

/// Costs that no chain of stages has.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum InvalidCosts {
    /// There is no stage.
    #[error("there are no stages to plan")]
    NoStages,
    /// A time is negative or not finite.
    #[error("stage {stage} has {name} of {seconds}, which is negative or not finite")]
    Seconds {
        /// The stage, counted from 0.
        stage: usize,
        /// The field.
        name: &'static str,
        /// Its value.
        seconds: f64,
    },
    /// All times together are not finite.
    #[error("the times of {count} stages add up to more than a number holds")]
    TooLong {
        /// How many stages there are.
        count: usize,
    },
    /// All bytes together are more than a number holds.
    #[error("the bytes of {count} stages add up to more than {}", u64::MAX)]
    TooLarge {
        /// How many stages there are.
        count: usize,
    },
    /// What is saved has no room for the output that is part of it.
    #[error("stage {stage} saves {saved_bytes} bytes in way {way}, less than its output of {output_bytes}")]
    SavedWithoutOutput {
        /// The stage, counted from 0.
        stage: usize,
        /// The way: 0 is all.
        way: usize,
        /// What it saves.
        saved_bytes: u64,
        /// Its output.
        output_bytes: u64,
    },
    /// A stage that cannot be repeated has ways that repeat parts of it.
    #[error("stage {stage} cannot be repeated, but has {savings} savings that repeat parts of it")]
    RepeatsInside {
        /// The stage, counted from 0.
        stage: usize,
        /// How many savings it has.
        savings: usize,
    },
}

/// No plan fits a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "a budget of {budget_bytes} bytes is too small for {solver}: stage {stage} needs {least_bytes} bytes"
)]
#[non_exhaustive]
pub struct TooSmall {
    /// The budget.
    pub budget_bytes: u64,
    /// The least budget for which the solver has a plan.
    pub least_bytes: u64,
    /// The stage at whose run or backward the plan of that budget has its peak, counted from 0.
    pub stage: usize,
    /// The solver.
    pub solver: Solver,
}

/// A list of actions that cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("action {index} ({}) is illegal: {reason}", .action.map_or("the end".into(), |action| action.to_string()))]
#[non_exhaustive]
pub struct Illegal {
    /// The place of the action in the list; its length where something is missing at the end.
    pub index: usize,
    /// The action; `None` where something is missing at the end.
    pub action: Option<Action>,
    /// Why.
    pub reason: Reason,
}

/// Why an action is illegal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Reason {
    /// The stage does not exist.
    #[error("there are {count} stages")]
    NoSuchStage {
        /// How many there are.
        count: usize,
    },
    /// The stage has no such way to be saved.
    #[error("the stage has no such way to be saved")]
    NoSuchWay,
    /// The output of the stage before is neither held nor saved.
    #[error("the stage's input is not held")]
    InputMissing,
    /// A stage is repeated before every stage has run once.
    #[error("nothing is repeated before stage {reached} has run")]
    TooEarly {
        /// The next stage that has not run.
        reached: usize,
    },
    /// The stage is saved already.
    #[error("the stage is saved already")]
    Saved,
    /// The stage's output is held, so that a run would give nothing new.
    #[error("the stage's output is held already")]
    OutputHeld,
    /// The stage cannot be repeated, so its first run must save it.
    #[error("the stage cannot be repeated, and must be saved")]
    MustSave,
    /// The stage's backward has run.
    #[error("the stage's backward has run")]
    AfterBackward,
    /// Another backward comes first.
    #[error("{}", .next.map_or("every backward has run".into(), |stage| format!("backward of stage {stage} comes next")))]
    OutOfOrder {
        /// The stage whose backward comes next; `None` after the last.
        next: Option<usize>,
    },
    /// What backward needs is not saved.
    #[error("the stage is not saved")]
    NotSaved,
    /// The list ends before every backward has run.
    #[error("backward of stage {0} is missing")]
    Unfinished(usize),
}
