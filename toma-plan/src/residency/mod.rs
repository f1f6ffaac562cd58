//! Plans that evict storages from a device while nothing uses them, and fetch them before an operator does.
//!
//! A [`Step`] is repeated in less memory than it takes. An [`Eviction`] chooses the storages that are evicted: on
//! demand, when an operator lacks bytes, or by a [`Plan`] that also fetches ahead. [`simulate`] computes bytes and
//! time. Nothing here depends on tensors: the runtime that executes a step moves the bytes.
//!
//! ```
//! use std::time::Duration;
//! use toma_plan::residency::{Eviction as _, Flow, Lru, Operator, Step, Storage, Terms, Use, simulate};
//!
//! const MIB: u64 = 1 << 20;
//!
//! // Inference: eight layers of 10 MiB and 10 ms each.
//! let weight = Storage { bytes: 10 * MIB, birth: None, death: None, stays: false };
//! let layer = |storage| Operator {
//!     uses: vec![Use { storage, writes: false }],
//!     inside_bytes: MIB,
//!     duration: Duration::from_millis(10),
//! };
//! let step = Step { storages: vec![weight; 8], operators: (0..8).map(layer).collect() };
//! step.check()?;
//! assert_eq!((step.peak_bytes(), step.least_budget()), (81 * MIB, (0, 11 * MIB)));
//!
//! // In half of that, over a link that takes as long for a layer as the layer runs.
//! let speed = 1000.0 * (1 << 20) as f64;
//! let terms = Terms { budget_bytes: 41 * MIB, in_bytes_per_second: speed, out_bytes_per_second: speed };
//! let on_demand = simulate(&step, &terms, &mut Lru, 3).last()?;
//! assert_eq!((on_demand.bytes_in, on_demand.stalled_seconds > 0.079), (80 * MIB, true));
//! let plan = Flow::default().plan(&step, &terms).ok_or("an operator does not fit")?;
//! assert_eq!((plan.bytes_in(), plan.peak_bytes()), (60 * MIB, 41 * MIB));
//! assert!(plan.seconds() < 0.081); // nothing waits
//! println!("{plan}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | eviction | evicts |
//! |---|---|
//! | [`Genoa`] | everything, after each operator |
//! | [`Lru`] | the least recently used storage |
//! | [`NextEvent`] | the storage that costs least for the time that it is evicted |
//! | [`Flow`] | the storages chosen by a plan of the whole step; without a plan as [`NextEvent`] |
//!
//! A step comes from a [trace](Step::of), or from the runtime that executes it; [`Periods`] finds where it begins
//! again. [`Timeline`] gives the next event of each storage to an eviction.
//!
//! # Simulation
//!
//! For operator k, where work between operators counts to the operator before:
//!
//! 1. Storages with death k are freed.
//! 2. It lacks resident + missing arguments + [`inside_bytes`](Operator::inside_bytes) − budget. If that is positive,
//!    [`evict`](Eviction::evict) is called once, with all storages on the device that may move and are not used by k.
//!    Its list is followed in order until the bytes suffice. Then other storages are evicted, least recently used
//!    first. If that does not suffice either, the step is [out of memory](OutOfMemory).
//! 3. Missing arguments are fetched, in the order of its uses; then the fetches that the plan has at k, if there is
//!    room.
//! 4. It runs. A storage that it writes loses its host copy. A storage that it makes lies on the device, without a host
//!    copy.
//! 5. Storages are evicted after it: by the plan, or else by [`leave`](Eviction::leave).
//!
//! An eviction moves bytes only if there is no valid host copy. A fetched storage keeps its host copy until it is
//! written. A step is simulated in rounds, and each round begins as the one before ended.
//!
//! Each direction has one link, which carries one storage after the other. A copy to the host begins when it is decided
//! and the link is free; its memory is free when it has ended. A fetch begins when its memory is free. An operator
//! begins when its arguments have arrived and its own bytes are free; its waiting time is a stall.

mod error;
mod eviction;
mod evictions;
mod flow;
mod links;
mod periods;
mod plan;
mod recorded;
mod simulation;
mod simulator;
mod step;
mod timeline;

pub use error::OutOfMemory;
pub use eviction::{Candidate, Eviction, Next, Situation, Terms};
pub use evictions::{Genoa, Lru, NextEvent};
pub use flow::Flow;
pub use periods::Periods;
pub use plan::{Absence, Back, Plan};
pub use simulation::{Move, MoveKind, Round, Simulation};
pub use simulator::{simulate, simulate_plan};
pub use step::{InvalidStep, Operator, Step, Storage, Use};
pub use timeline::Timeline;
