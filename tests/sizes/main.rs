//! Sizes: measuring policies, size caches, sizes by cost, and the reports about them.

mod adaptive;
mod caches;
#[path = "../common/child.rs"]
mod child;
mod cost;
#[path = "../common/executor.rs"]
mod executor;
#[path = "../common/kit.rs"]
mod kit;
mod observing;
