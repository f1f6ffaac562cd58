//! The ladder among threads and tasks on one device: waiting, turns, fallback, and what must not hang.
#![cfg(feature = "testing")]

mod alone;
#[path = "../common/executor.rs"]
mod executor;
mod fallback;
mod futures;
mod kit;
mod nested;
mod passing;
mod seen;
mod stuck;
mod threads;
mod undoing;
mod way;
