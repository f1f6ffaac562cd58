//! Plans that move storages off a device while nothing uses them, and back before an operator does.
//!
//! A [`Step`] is repeated in less memory than it takes. An [`Eviction`] says what leaves: on demand, when an operator
//! lacks bytes, or by a [`Plan`] that also fetches ahead. [`simulate`] says what that takes in bytes and time. Nothing
//! here knows tensors: what runs a step moves the bytes.
//!
//! | eviction | what leaves |
//! |---|---|
//! | [`Genoa`] | everything, after each operator |
//! | [`Lru`] | what was used longest ago |
//! | [`NextEvent`] | what costs least for the time that it is away |
//! | [`Flow`] | what a plan of the whole step says; without one as [`NextEvent`] |
//!
//! # What is simulated
//!
//! For operator k, with what a program does between operators counted to the one before:
//!
//! 1. Storages with death k are gone.
//! 2. It lacks resident + missing arguments + [`inside_bytes`](Operator::inside_bytes) − budget. If that is
//!    positive, [`evict`](Eviction::evict) is asked, once, with everything on the device that may move and is not
//!    used by k. Its list is carried out in order up to where it suffices. Then the rest leaves, least recently used
//!    first. If that does not suffice either, the step is [out of memory](OutOfMemory).
//! 3. Missing arguments are fetched, in the order of its uses; then what the plan fetches at k, where there is room.
//! 4. It runs. What it writes loses its outside copy. What it makes lies on the device, without one.
//! 5. What leaves after it does so: by the plan, or else by [`leave`](Eviction::leave).
//!
//! Moving out costs bytes only without a valid copy outside. A step is simulated in rounds, and each round begins as the
//! one before ended. Time has one link each way. A copy to outside begins when it is decided and the link is free;
//! its memory is free when it has ended. An operator begins when its arguments have arrived and its bytes are free.

mod error;
mod eviction;
mod evictions;
mod flow;
mod links;
mod outcome;
mod periods;
mod plan;
mod recorded;
mod simulator;
mod step;
mod timeline;

pub use error::{InvalidStep, OutOfMemory};
pub use eviction::{Candidate, Eviction, Next, Situation, Terms};
pub use evictions::{Genoa, Lru, NextEvent};
pub use flow::Flow;
pub use outcome::{Move, MoveKind, Outcome, Round};
pub use periods::Periods;
pub use plan::{Absence, Back, Plan};
pub use simulator::{simulate, simulate_plan};
pub use step::{Operator, Step, Storage, Use};
pub use timeline::Timeline;
