//! What a step will take, before it runs.

mod correction;
mod dry;
mod explain;
mod foresight;
mod key;
mod making;
mod pace;
mod prediction;
mod recent;
mod rehearsal;
mod split;

pub use dry::{dry_run, dry_run_by_shapes};
pub use explain::Explanation;
pub use foresight::DryRun;
pub(crate) use foresight::{Foresight, Work};
pub(crate) use key::{Key, Purpose};
pub use making::predict;
pub use prediction::Prediction;
