//! The solvers that find a plan.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The algorithm that finds a plan.
///
/// ```
/// use toma_plan::checkpoint::{Costs, Solver, Stage};
///
/// let stage = Stage { forward_seconds: 0.1, output_bytes: 1, saved_bytes: 4, ..Stage::default() };
/// let costs = Costs::new(vec![stage.repeated_alike(); 16])?;
/// let seconds = |solver| costs.plan(32, solver).map(|plan| plan.seconds());
/// assert!(seconds(Solver::Auto)? <= seconds(Solver::Rotor)?);
/// assert!(seconds(Solver::KeepAll).is_err()); // needs 64 bytes
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Solver {
    /// Saves every stage, as a run without checkpoints does.
    KeepAll,
    /// The partition of pytorch-memonger: of `n` stages `⌊√n⌋` segments of equal count, the rest in the last.
    /// Segments hold their inputs, and run a second time. The plan is the same for every budget.
    SqrtN,
    /// The fastest plan that repeats segments as a whole, by dynamic programming over slots of the budget.
    Rotor,
    /// The plan of [`Rotor`](Self::Rotor), from which a local search removes unnecessary runs.
    #[default]
    Auto,
}

impl Solver {
    /// All solvers, from the simplest on.
    pub const ALL: [Self; 4] = [Self::KeepAll, Self::SqrtN, Self::Rotor, Self::Auto];

    fn name(self) -> &'static str {
        match self {
            Self::KeepAll => "keep-all",
            Self::SqrtN => "sqrt-n",
            Self::Rotor => "rotor",
            Self::Auto => "auto",
        }
    }
}

/// `keep-all`, `sqrt-n`, `rotor` or `auto`.
impl fmt::Display for Solver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Solver {
    type Err = UnknownSolver;

    fn from_str(name: &str) -> Result<Self, UnknownSolver> {
        let found = Self::ALL.into_iter().find(|solver| solver.name() == name);
        found.ok_or_else(|| UnknownSolver { name: name.into() })
    }
}

/// A name that belongs to no solver.
///
/// ```
/// use toma_plan::checkpoint::Solver;
///
/// let error = "best".parse::<Solver>().unwrap_err();
/// assert_eq!(error.to_string(), "`best` is no solver: expected keep-all, sqrt-n, rotor or auto");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{name}` is no solver: expected keep-all, sqrt-n, rotor or auto")]
#[non_exhaustive]
pub struct UnknownSolver {
    /// The name.
    pub name: String,
}
