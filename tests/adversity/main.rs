//! Bad input, bad luck and bad company: each ends in a clear error or a right result, without a
//! hang and without a lost element.

#![expect(
    clippy::from_iter_instead_of_collect,
    clippy::items_after_statements,
    clippy::needless_for_each,
    clippy::semicolon_if_nothing_returned,
    clippy::unnecessary_wraps,
    reason = "each test tells its story from top to bottom"
)]

mod child;
mod environment;
mod exits;
mod host;
mod kit;
mod limits;
mod nesting;
mod observers;
mod payloads;
mod policies;
mod printing;
mod sizes;
mod sources;
mod stacks;
mod unwinding;
