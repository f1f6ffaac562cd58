//! Ranks make the same attempts at the same sizes, whatever fails on each of them.

#[cfg(feature = "testing")]
mod broken;
mod ending;
mod every_order;
#[path = "../common/executor.rs"]
mod executor;
mod forms;
mod kit;
#[path = "../common/rounds.rs"]
mod rounds;
mod schedules;
