//! What a step will take, before it runs.

mod dry;

pub use dry::{dry_run, dry_run_by_shapes};
