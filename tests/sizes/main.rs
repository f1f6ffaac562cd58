//! Sizes: what policies make of what they measure, what caches remember, sizes by cost, and what is reported of them.

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
