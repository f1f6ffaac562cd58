//! Devices that threads and tasks share: turns, nested loops, fallback, reservations, and what must not hang.
#![cfg(feature = "testing")]

mod between;
#[path = "../common/child.rs"]
mod child;
mod contention;
#[path = "../common/executor.rs"]
mod executor;
mod fallback;
mod kit;
mod nested;
mod reservations;
mod tasks;
mod undoing;
mod waits;
