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
#[cfg(feature = "testing")]
mod deadline;
mod evidence;
mod forms;
mod ladder;
mod measuring;
mod nested;
mod plan;
mod printing;
mod script;
mod shorthands;
mod stage;
mod threads;
mod twin;

/// Registers the error type of the tests, which carries its class.
pub(crate) fn register() {
    toma::classify::add_error::<stage::Fault>(|fault| Some(fault.class));
}
