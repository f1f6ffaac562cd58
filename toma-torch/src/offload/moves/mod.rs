//! Storages that are evicted and fetched, and the operators that need them.

pub(crate) mod callbacks;
pub(crate) mod counts;
pub(crate) mod dry_step;
pub(crate) mod evicted;
pub(crate) mod host;
pub(crate) mod link;
pub(crate) mod notify;
pub(crate) mod operators;
pub(crate) mod parking;
pub(crate) mod planned;
pub(crate) mod queries;
pub(crate) mod registry;
pub(crate) mod room;
pub(crate) mod state;
pub(crate) mod stopwatch;
pub(crate) mod table;
pub(crate) mod weights_file;
