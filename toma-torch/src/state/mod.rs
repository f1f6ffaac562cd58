//! State that an attempt changes in addition to its results: modes, gradients, random numbers, buffers.

mod backtraces;
mod gradients;
mod modes;
mod rng;
mod rollback;

pub use backtraces::QuietBacktraces;
pub use gradients::accumulate_gradients;
pub use modes::ModeGuard;
pub(crate) use modes::TorchModes;
pub use rng::RngState;
pub(crate) use rollback::DryCopies;
pub use rollback::Rollback;
