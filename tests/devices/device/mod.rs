//! Devices that threads and tasks share: turns, nested loops, fallback, reservations, and protection against hangs.
#![cfg(feature = "testing")]

mod asynchronous;
mod between;
mod contention;
mod fallback;
mod kit;
mod nested;
mod reservations;
mod tasks;
mod undoing;
mod waits;
