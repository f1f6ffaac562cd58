//! Devices that are shared or misbehave, exhausted memory, and failures of every other kind.

mod adversity;
#[path = "../common/child.rs"]
mod child;
mod device;
#[path = "../common/executor.rs"]
mod executor;
mod exhausted;
mod hooks;
#[path = "../common/kit.rs"]
mod kit;
