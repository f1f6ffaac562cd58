//! Regions whose backward recomputes dropped activations: bits, bytes, failures.

#[path = "../common/alone.rs"]
mod alone;
mod bytes;
#[path = "../../../tests/common/child.rs"]
mod child;
mod disabled;
mod exact;
mod failures;
mod graphs;
#[path = "../common/ground.rs"]
mod ground;
mod hard;
mod kit;
mod known;
mod nets;
mod random_plans;
mod retry;
#[path = "../../../tests/common/rounds.rs"]
mod rounds;
mod script;
mod sequences;
mod statistics;
mod uncut;
mod unseen;
