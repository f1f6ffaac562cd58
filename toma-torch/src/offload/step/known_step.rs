//! A known step, and the storages that its operators use.

use toma_plan::residency::{Plan, Step, Timeline};

/// Pairs of a storage's number in a step and its id.
pub(crate) type Bound = Vec<(usize, u64)>;

/// A step that has been recorded.
#[derive(Clone, Debug)]
pub(crate) struct KnownStep {
    pub(crate) step: Step,
    pub(crate) timeline: Timeline,
    pub(crate) prints: Vec<u64>,
    /// Numbers of the storages that each operator makes, in order.
    pub(crate) made: Vec<Vec<usize>>,
    pub(crate) plan: Option<Plan>,
}

/// A step, and the storages that are live when it begins.
pub(crate) type LearnedStep = (KnownStep, Bound);

/// A storage that an operator uses or makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsedStorage {
    pub(crate) id: u64,
    pub(crate) bytes: u64,
    pub(crate) writes: bool,
}

/// Consequences of the end of an operator.
#[derive(Debug, Default)]
pub(crate) struct Ensuing {
    /// A step that has become known, still without a plan.
    pub(crate) known: Option<Box<LearnedStep>>,
    /// Storages that the plan evicts now.
    pub(crate) evicts: Vec<u64>,
    /// True if a repetition of the step has ended.
    pub(crate) is_round: bool,
}

/// Hash that identifies an operator by its name and the storages it uses.
pub(crate) fn print_of(name: &str, found: &[UsedStorage]) -> u64 {
    // Names live as long as their library, so the address identifies a name.
    let name = name.as_ptr().addr() as u64;
    let mixed = |sum: u64, number: u64| (sum.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    found.iter().fold(name, |sum, one| mixed(sum, one.bytes << 1 | u64::from(one.writes)))
}
