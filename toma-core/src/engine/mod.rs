//! The engine: one loop for every form.
//!
//! ```text
//! options ──> Sizes ──> Machine <── Policy          the next step, from past results (pure)
//!                          │
//! cache, report ───────> Call ──── Stages           one call; deadline, observers, meter, turns on a device
//!                          │
//! body ─────────────> drive(Attempt)                attempt, classify, clean up, again
//! ```
//!
//! [`Machine`](machine::Machine) decides and never runs anything; [`Call`](call::Call) connects it to the size cache,
//! the memory source and the observers; [`drive`] runs attempts until a piece is done, and [`asynchronous`] does the
//! same for tasks.
//!
//! # Why
//!
//! The policy is erased to `&dyn Policy` once, and the driver passes this reference where a call opens, succeeds or
//! fails. So the engine is compiled once, and an iterator owns its policy without an allocation. A policy with a
//! fixed step is not asked after a success.

mod again;
pub(crate) mod asynchronous;
mod attempt;
mod backoff;
mod ballot;
pub(crate) mod call;
mod checked_policy;
pub(crate) mod costs;
mod doubts;
pub(crate) mod drive;
mod evidence;
mod hold;
mod machine;
mod meter;
pub(crate) mod options;
pub(crate) mod pieces;
mod prediction;
mod rungs;
mod sizes;
mod stages;
mod turns;
