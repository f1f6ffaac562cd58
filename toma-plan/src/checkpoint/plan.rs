//! A plan and its display.

use std::fmt;

use toma_trace::Size;

use super::bound::Bounds;
use super::candidate::PlanCandidate;
use super::error::Illegal;
use super::{Action, Costs, Simulated, Solver, grafted, simulate};

/// An ordered list of actions that run, hold and drop stages, with its peak and its time.
///
/// The first actions run all stages once, in order. All others belong to backward.
///
/// Plans of the same costs and budget are equal if their actions are.
///
/// ```
/// use toma_plan::checkpoint::{Costs, Solver, Stage};
///
/// let stage = Stage { forward_seconds: 0.1, output_bytes: 1, saved_bytes: 4, ..Stage::default() };
/// let costs = Costs::new(vec![stage.repeated_alike(); 8])?;
/// let plan = costs.plan(16, Solver::Auto)?;
/// assert!(plan.peak_bytes() <= 16 && plan.seconds() > costs.keep_all_seconds());
/// println!("{plan}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    actions: Vec<Action>,
    simulated: Simulated,
    keep_all_seconds: f64,
    bound_seconds: f64,
    solver: Option<Solver>,
}

impl Plan {
    /// Creates a plan from your own actions. Its lower bound is the one for its peak.
    ///
    /// # Errors
    ///
    /// [`Illegal`] names the action that cannot be carried out.
    pub fn new(costs: &Costs, actions: Vec<Action>) -> Result<Self, Illegal> {
        let simulated = simulate(costs, &actions)?;
        let bound_seconds = Bounds::new(costs, simulated.peak_bytes).seconds(simulated.peak_bytes);
        let keep_all_seconds = costs.keep_all_seconds();
        Ok(Self { actions, simulated, keep_all_seconds, bound_seconds, solver: None })
    }

    /// Returns this plan for a chain whose first stages have already run differently, with the actions `first`. Later
    /// runs that are not needed any more are left out, and missing inputs are recomputed before they are needed.
    ///
    /// Use it for work that began like the planned work and then turned out to be different.
    ///
    /// ```
    /// use toma_plan::checkpoint::{Action, Costs, Solver, Stage};
    ///
    /// let costs = Costs::new(vec![Stage { output_bytes: 1, saved_bytes: 2, ..Stage::default() }; 3])?;
    /// let plan = costs.plan(costs.keep_all_bytes(), Solver::Auto)?;
    /// let other = plan.after(&costs, &[Action::Drop(0), Action::Drop(1)])?;
    /// assert_eq!(other.actions()[..2], [Action::Drop(0), Action::Drop(1)]);
    /// assert_eq!(other.repeats().collect::<Vec<_>>(), [2, 1, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Illegal`] names the action that cannot be carried out.
    pub fn after(&self, costs: &Costs, first: &[Action]) -> Result<Self, Illegal> {
        Self::new(costs, grafted::grafted(costs, first, &self.actions))
    }

    pub(super) fn found(costs: &Costs, found: PlanCandidate, bound_seconds: f64, solver: Solver) -> Self {
        let PlanCandidate { actions, simulated } = found;
        let keep_all_seconds = costs.keep_all_seconds();
        Self { actions, simulated, keep_all_seconds, bound_seconds, solver: Some(solver) }
    }

    /// Returns the actions, in order.
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// Returns the number of stages.
    pub fn stages(&self) -> usize {
        self.simulated.runs.len()
    }

    /// Returns the most bytes held at once, in addition to those allocated when the region starts.
    pub fn peak_bytes(&self) -> u64 {
        self.simulated.peak_bytes
    }

    /// Returns the time of all forward and backward runs, in seconds.
    pub fn seconds(&self) -> f64 {
        self.simulated.seconds
    }

    /// Returns the time of a run that repeats nothing, in seconds.
    pub fn keep_all_seconds(&self) -> f64 {
        self.keep_all_seconds
    }

    /// Returns a time in seconds that no plan in the same budget can beat. Few budgets have a plan that reaches it.
    pub fn bound_seconds(&self) -> f64 {
        self.bound_seconds
    }

    /// Returns the requested solver; `None` for a plan from your own actions.
    pub fn solver(&self) -> Option<Solver> {
        self.solver
    }

    /// Returns the number of repeats of each stage after its first run.
    pub fn repeats(&self) -> impl ExactSizeIterator<Item = usize> {
        self.simulated.runs.iter().map(|runs| runs - 1)
    }

    /// Returns the state of each stage when backward begins.
    pub fn held(&self) -> Vec<Held> {
        let count = self.stages();
        let mut held = vec![Held::Dropped; count];
        for action in &self.actions[..count] {
            let stage = action.stage();
            held[stage] = match *action {
                Action::Save { way, .. } => Held::Saved { way },
                _ => Held::Kept,
            };
            let dropped = stage.checked_sub(1).filter(|_| action.drops_input());
            if let Some(input) = dropped.filter(|input| held[*input] == Held::Kept) {
                held[input] = Held::Dropped;
            }
        }
        held
    }

    fn percent_more(&self, seconds: f64) -> f64 {
        if self.keep_all_seconds > 0.0 { (seconds / self.keep_all_seconds - 1.0) * 100.0 } else { 0.0 }
    }
}

/// State of a stage when backward begins.
///
/// ```
/// use toma_plan::checkpoint::{Costs, Held, Solver, Stage};
///
/// let costs = Costs::new(vec![Stage { output_bytes: 1, saved_bytes: 4, ..Stage::default() }; 2])?;
/// let plan = costs.plan(costs.keep_all_bytes(), Solver::KeepAll)?;
/// assert_eq!(plan.held(), [Held::Saved { way: 0 }; 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Held {
    /// The activations that the stage's backward needs are held, saved in a way.
    Saved {
        /// The way: 0 saves all.
        way: usize,
    },
    /// The output of the stage is held.
    Kept,
    /// Nothing is held.
    Dropped,
}

/// `saved`, `saved in way 1`, `kept` or `dropped`.
impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Saved { way: 0 } => f.pad("saved"),
            Self::Saved { way } => f.pad(&format!("saved in way {way}")),
            Self::Kept => f.pad("kept"),
            Self::Dropped => f.pad("dropped"),
        }
    }
}

/// Shows a line with the figures, then a row for each stage, or for equal neighbors together.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.solver.map_or("own plan".into(), |solver| solver.to_string());
        let [more, bound] = [self.seconds(), self.bound_seconds].map(|seconds| self.percent_more(seconds));
        let [peak, repeats] =
            [Size::of(self.peak_bytes()).to_string(), self.repeats().sum::<usize>().to_string()];
        writeln!(f, "{name}: {peak} at +{more:.1} % of time (bound +{bound:.1} %), {repeats} repeats")?;
        write!(f, "{:>9}  {:<14}  repeats", "stages", "first run")?;
        let rows: Vec<_> = self.held().into_iter().zip(self.repeats()).collect();
        let mut start = 0;
        for alike in rows.chunk_by(|a, b| a == b) {
            let end = start + alike.len() - 1;
            let stages = if start == end { start.to_string() } else { format!("{start}-{end}") };
            let (held, repeats) = alike[0];
            write!(f, "\n{stages:>9}  {held:<14}  {repeats:>7}")?;
            start = end + 1;
        }
        Ok(())
    }
}
