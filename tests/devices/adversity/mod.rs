//! Bad input, failures and misbehaving code around a call: each case ends in a clear error or a right result, without a
//! hang and without a lost element.

mod environment;
mod exits;
mod host;
mod kit;
mod limits;
mod nesting;
mod observers;
mod payloads;
mod policies;
mod sizes;
mod sources;
mod stacks;
mod unwinding;
