//! Errors of planning, with their values.

use thiserror::Error;

use super::{Action, Solver};

/// Costs that no chain of stages can have.
///
/// ```
/// use toma_plan::checkpoint::{Costs, InvalidCosts};
///
/// assert_eq!(Costs::new(Vec::new()), Err(InvalidCosts::NoStages));
/// ```
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
        /// The value of the field.
        seconds: f64,
    },
    /// All times together are not finite.
    #[error("the times of {count} stages add up to more than a number holds")]
    TooLong {
        /// Number of stages.
        count: usize,
    },
    /// All bytes together are more than [`u64::MAX`].
    #[error("the bytes of {count} stages add up to more than {}", u64::MAX)]
    TooLarge {
        /// Number of stages.
        count: usize,
    },
    /// The saved bytes are less than the output, which is part of them.
    #[error("stage {stage} saves {saved_bytes} bytes in way {way}, less than its output of {output_bytes}")]
    SavedWithoutOutput {
        /// The stage, counted from 0.
        stage: usize,
        /// The way: 0 is all.
        way: usize,
        /// Saved bytes.
        saved_bytes: u64,
        /// Bytes of the output.
        output_bytes: u64,
    },
    /// Bytes that are a part of others are more than those.
    #[error("stage {stage} has {name} of {bytes}, more than the {most_bytes} that they are a part of")]
    LargerPart {
        /// The stage, counted from 0.
        stage: usize,
        /// The field.
        name: &'static str,
        /// The value of the field.
        bytes: u64,
        /// The most that the value can be.
        most_bytes: u64,
    },
    /// A stage that cannot be repeated has savings, which repeat parts of it.
    #[error("stage {stage} cannot be repeated, but has {savings} savings that repeat parts of it")]
    RepeatsInside {
        /// The stage, counted from 0.
        stage: usize,
        /// Number of savings of the stage.
        savings: usize,
    },
}

/// No plan of the solver fits the budget.
///
/// ```
/// use toma_plan::checkpoint::{Costs, Solver, Stage};
///
/// let costs = Costs::new(vec![Stage { output_bytes: 1, saved_bytes: 4, ..Stage::default() }; 8])?;
/// let plan = costs.plan(1, Solver::Auto).or_else(|too_small| costs.plan(too_small.least_bytes, Solver::Auto))?;
/// assert_eq!(plan.peak_bytes(), costs.least_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// The stage whose forward or backward has the peak of the plan for `least_bytes`, counted from 0.
    pub stage: usize,
    /// The solver.
    pub solver: Solver,
}

/// A list of actions that cannot be carried out.
///
/// ```
/// use toma_plan::checkpoint::{Action, Costs, Plan, Stage};
///
/// let costs = Costs::new(vec![Stage::default()])?;
/// let illegal = Plan::new(&costs, vec![Action::Backward(0)]).unwrap_err();
/// assert_eq!(illegal.to_string(), "action 0 (backward 0) is illegal: the stage is not saved");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("action {index} ({}) is illegal: {reason}", .action.map_or("the end".into(), |action| action.to_string()))]
#[non_exhaustive]
pub struct Illegal {
    /// Index of the action in the list; the length of the list if something is missing at the end.
    pub index: usize,
    /// The action; `None` if something is missing at the end.
    pub action: Option<Action>,
    /// Reason why the action is illegal.
    pub reason: Reason,
}

/// Reasons why an action is illegal.
///
/// ```
/// use toma_plan::checkpoint::{Action, Costs, Reason, Stage, simulate};
///
/// let costs = Costs::new(vec![Stage::default()])?;
/// let illegal = simulate(&costs, &[Action::Drop(7)]).unwrap_err();
/// assert_eq!(illegal.reason, Reason::NoSuchStage { count: 1 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Reason {
    /// The stage does not exist.
    #[error("there are {count} stages")]
    NoSuchStage {
        /// Number of stages.
        count: usize,
    },
    /// The stage has no such way of saving.
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
    /// The stage's output is held, so a run would produce nothing new.
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
    /// The activations that backward needs are not saved.
    #[error("the stage is not saved")]
    NotSaved,
    /// The list ends before every backward has run.
    #[error("backward of stage {0} is missing")]
    Unfinished(usize),
}
