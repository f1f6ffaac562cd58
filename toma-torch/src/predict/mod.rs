//! Predictions of a step's memory before it runs.

mod comparing;
mod correction;
mod dry;
mod dry_call;
mod explain;
mod judging;
mod kept;
mod key;
mod making;
mod pace;
mod prediction;
mod printed;
mod recent;
mod room;
mod runs;
mod segments;
mod step;
mod verdict;
mod workspaces;

pub(crate) use dry::note_kept_size;
pub use dry::{dry_run, dry_run_by_shapes};
pub(crate) use judging::{Case, Program, Splitting};
pub(crate) use key::{Key, Purpose, Site};
pub use making::predict;
pub use prediction::Prediction;
pub(crate) use recent::Recent;
pub(crate) use runs::{Run, TensorOutcome};
pub use step::DryRun;
pub(crate) use step::{StepPrediction, Work};
