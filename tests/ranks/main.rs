//! Ranks make the same attempts at the same sizes, whatever fails on each of them.

#[cfg(feature = "testing")]
mod broken;
#[path = "../common/kit.rs"]
mod common;
mod ending;
mod every_order;
#[path = "../common/executor.rs"]
mod executor;
mod forms;
mod kit;
#[path = "../common/rounds.rs"]
mod rounds;
mod schedules;
