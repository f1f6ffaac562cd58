//! Ranks that are processes, connected by the store of c10d.

#[path = "../../../tests/common/child.rs"]
mod child;
mod gradients;
mod joining;
mod killed;
mod kit;
