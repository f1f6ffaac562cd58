//! Regions, whose backward repeats what their plans drop: bits, bytes, failures.

mod exact;
mod kit;
mod nets;
