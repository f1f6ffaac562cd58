//! The rules of the loops, checked against a slow, obvious twin: for any script of failures, any
//! sizes and any policy, through every form.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "the tests' numbers are small, and random numbers may lose their upper half"
)]

mod against_twin;
mod attributes;
mod bad_input;
mod bisect;
mod cases;
#[path = "../common/child.rs"]
mod child;
#[cfg(feature = "testing")]
mod deadline;
mod evidence;
#[path = "../common/executor.rs"]
mod executor;
mod forms;
mod ladder;
mod measuring;
mod nested;
mod noise;
mod plan;
#[path = "../common/printed.rs"]
mod printed;
mod printing;
mod script;
mod shorthands;
mod stage;
mod threads;
mod twin;
