//! Leaner plans: what bodies offer, when the engine asks for it, and what policies make of the time that it costs.

#[path = "../common/executor.rs"]
mod executor;
#[cfg(feature = "testing")]
mod faster;
mod floor;
mod forms;
mod kit;
mod offers;
#[path = "../common/printed.rs"]
mod printed;
mod rungs;
mod tasks;
