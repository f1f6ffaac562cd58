//! The engine: one loop for every form.
//!
//! ```text
//! options ──> Sizes ──> Machine <── Policy          what to try next, and what came back (pure)
//!                          │
//! cache, device, ──────> Call                       one call: machine + size cache + events
//! observer                 │
//! body ─────────────> drive                         attempt, classify, clean up, again
//! ```
//!
//! [`Machine`](machine::Machine) decides and never runs anything; [`Call`](call::Call) connects it
//! to the size cache, the memory source and the observers; [`drive`] runs attempts until a piece is
//! done, and [`asynchronous`] does the same for whoever awaits.

pub(crate) mod asynchronous;
pub(crate) mod attempt;
pub(crate) mod call;
pub(crate) mod checked_policy;
pub(crate) mod company;
pub(crate) mod costs;
pub(crate) mod drive;
pub(crate) mod machine;
pub(crate) mod meter;
pub(crate) mod pieces;
pub(crate) mod recording;
pub(crate) mod sizes;
pub(crate) mod tally;
pub(crate) mod turns;
