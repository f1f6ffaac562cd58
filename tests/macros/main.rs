//! Macros: attributes on functions of every kind, asynchronous ones, every option, marks, and mistakes.

mod asynchronous;
mod attributes;
#[path = "../common/child.rs"]
mod child;
#[path = "../common/executor.rs"]
mod executor;
#[path = "../common/kit.rs"]
mod kit;
mod mistakes;
mod options;
mod profile;
