//! Choices with their plans, and their comparison.

use super::super::{Plan, Step, Terms};
use super::ahead;
use super::cover::{self, Cover};

/// Relative difference below which times count as equal.
const SLACK: f64 = 1e-4;

/// The figures by which plans are compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Worth {
    pub(super) seconds: f64,
    pub(super) bytes: f64,
}

impl Worth {
    pub(super) fn of(plan: &Plan) -> Self {
        Self { seconds: plan.seconds(), bytes: cover::as_float(plan.bytes_in() + plan.bytes_out()) }
    }

    /// True if this is faster, or nearly equal and moves less.
    pub(super) fn beats(self, other: Self) -> bool {
        let difference = (self.seconds - other.seconds) / other.seconds.max(f64::MIN_POSITIVE);
        difference < -SLACK || (difference <= SLACK && self.bytes < other.bytes)
    }
}

/// A choice and its plan.
pub(super) struct Planned<'a> {
    pub(super) cover: Cover<'a>,
    pub(super) pace: f64,
    pub(super) plan: Plan,
}

impl<'a> Planned<'a> {
    pub(super) fn new(step: &Step, terms: &Terms, cover: Cover<'a>, pace: f64) -> Self {
        let plan = Plan::new(step, terms, "flow", ahead::absences(&cover, step, terms, pace));
        Self { cover, pace, plan }
    }
}

/// Returns the better one; of equals the first.
pub(super) fn better<'a>(one: Planned<'a>, other: Planned<'a>) -> Planned<'a> {
    if Worth::of(&other.plan).beats(Worth::of(&one.plan)) { other } else { one }
}
