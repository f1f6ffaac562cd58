//! The memory of a host whose files are written by the tests, and readings that may be a little old.

mod host;
mod recent;
