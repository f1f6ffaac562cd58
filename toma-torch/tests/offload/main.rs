//! Storages that are evicted and fetched, under real budgets.

#[path = "../common/alone.rs"]
mod alone;
#[path = "../../../tests/common/child.rs"]
mod child;
mod exact;
mod failures;
mod files;
mod fork;
mod governor;
#[path = "../common/ground.rs"]
mod ground;
mod handles;
mod hard;
mod kit;
mod listed;
mod modes;
#[path = "../common/nets.rs"]
mod nets;
mod noticed;
mod park;
mod plans;
mod predicted;
mod profiled;
mod programs;
mod rare;
#[cfg(target_os = "linux")]
#[path = "../../../tests/common/resident.rs"]
mod resident;
#[path = "../../../tests/common/rounds.rs"]
mod rounds;
mod sizes;
#[cfg(target_os = "linux")]
mod soak;
mod steps;
mod storm;
mod threads;
mod together;
mod variables;

/// Images in a batch of ResNet-20. The batches of other nets grow with it.
const IMAGES: i64 = 8;
