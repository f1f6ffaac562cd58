//! Plans that trade time for memory: some stages of a chain are saved, others are recomputed in backward.
//!
//! Backward needs the activations that forward saved. A plan saves some stages, holds the outputs of others
//! (*checkpoints*), and recomputes the stages in between. Stages are any cut of a program into a chain, measured in
//! bytes and seconds. Nothing here depends on tensors, so another framework can use it as well.
//!
//! ```
//! use toma_plan::checkpoint::{Costs, Solver, Stage};
//!
//! const MIB: u64 = 1 << 20;
//!
//! let block = Stage {
//!     forward_seconds: 0.010,
//!     backward_seconds: 0.020,
//!     output_bytes: 4 * MIB,
//!     saved_bytes: 12 * MIB,
//!     gradient_bytes: 4 * MIB,
//!     ..Stage::default()
//! };
//! let costs = Costs::new(vec![block.repeated_alike(); 16])?;
//! assert_eq!(costs.keep_all_bytes(), 200 * MIB);
//!
//! let plan = costs.plan(80 * MIB, Solver::Auto)?;
//! assert!(plan.peak_bytes() <= 80 * MIB);
//! assert!(plan.seconds() < costs.keep_all_seconds() * 1.33); // each stage once more
//! println!("{plan}");
//!
//! let error = costs.plan(10 * MIB, Solver::Auto).unwrap_err();
//! assert_eq!(error.least_bytes, costs.least_bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Overview
//!
//! ```
//! use toma_plan::checkpoint::*;
//!
//! # fn all(stages: Vec<Stage>, actions: Vec<Action>) -> Result<(), Box<dyn std::error::Error>> {
//! let costs: Costs = Costs::new(stages)?.with_input_gradient(1 << 20)?;
//! let (least, most): (u64, u64) = (costs.least_bytes(), costs.keep_all_bytes());
//! let plan: Plan = costs.plan(least, "rotor".parse()?)?;
//! let own: Plan = Plan::new(&costs, actions)?;
//! let curve: Vec<Point> = costs.curve();
//!
//! let done: &[Action] = plan.actions();
//! let (peak, seconds, bound): (u64, f64, f64) = (plan.peak_bytes(), plan.seconds(), plan.bound_seconds());
//! let (held, repeats): (Vec<Held>, Vec<usize>) = (plan.held(), plan.repeats().collect());
//! let Simulated { peak_bytes, peak_stage, seconds, runs, .. } = simulate(&costs, done)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Actions
//!
//! A plan is a list of [`Action`]s over stages counted from 0. [`simulate`] alone decides which lists are legal, and
//! computes their bytes and time:
//!
//! - The input of stage 0 is there, and takes no bytes. The gradient of the last output is counted from the start,
//!   because the work behind the last stage makes it before anything is dropped.
//! - The first actions run all stages once, in order. All later actions belong to backward: nothing is repeated before.
//! - A run needs the output of the stage before, alone or as part of the saved activations. It takes the bytes that it
//!   leaves behind (the output, or the saved activations) and its peak beyond that.
//! - Then [`Drop`](Action::Drop), or a [`Save`](Action::Save) that does not hold its input, frees the input. If the
//!   input is part of the saved activations of the stage before, it stays.
//! - Once the next stage has run for the first time, and if no later action runs it, the [idle part](Stage::idle_bytes)
//!   of an output is freed. It is always freed before the backward of its own stage.
//! - If the first run of a stage saves it, [bytes that the program holds as well](Stage::program_bytes) do not count in
//!   the peaks of first runs after the next stage.
//! - No run repeats a result that is there: a stage that is saved does not run, and a stage whose output is held runs
//!   only to be saved. Both copies of the output count then.
//! - [`Backward`](Action::Backward) runs from the last stage to the first. It needs the stage saved and its input,
//!   takes the gradient of the input and its peak, and frees the stage's saved activations, output, gradient and input.
//!   The gradients of variables that it has made stay.
//! - No run drops the last output, because the caller holds it: it stays until its backward.
//! - A stage that [must be saved](Stage::must_save) is saved by its first run and never runs again.
//!
//! # Solvers
//!
//! [`Solver::Rotor`] is the algorithm of O. Beaumont, L. Eyraud-Dubois, J. Herrmann, A. Joly and A. Shilova, *Optimal
//! checkpointing for heterogeneous chains* (2019). It is extended by ways to save less than all of a stage, first runs
//! with other costs than repeats, stages that cannot be repeated, and budgets that rounding up to slots would miss.

mod action;
mod bound;
mod candidate;
mod costs;
mod curve;
mod error;
mod fixed;
mod grafted;
mod least;
mod local;
mod moves;
mod plan;
mod planning;
// For toma-torch, whose shim runs the operators.
#[doc(hidden)]
pub mod recording;
mod recurrence;
mod rotor;
mod search;
mod simulator;
mod solver;
mod stage;

pub use action::Action;
pub use costs::Costs;
pub use curve::Point;
pub use error::{Illegal, InvalidCosts, Reason, TooSmall};
pub use plan::{Held, Plan};
pub use simulator::{Simulated, simulate};
pub use solver::{Solver, UnknownSolver};
pub use stage::{Saving, Stage};
