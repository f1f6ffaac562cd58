//! A step that is known, and what operators find of it.

use toma_plan::residency::{Plan, Step, Timeline};

/// Storages by their numbers in a step.
pub(crate) type Bound = Vec<(usize, u64)>;

/// A step that has been recorded.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) step: Step,
    pub(crate) timeline: Timeline,
    pub(crate) prints: Vec<u64>,
    /// The storages that each operator makes, in order.
    pub(crate) made: Vec<Vec<usize>>,
    pub(crate) plan: Option<Plan>,
}

/// A step, and the storages that live when it begins, by their numbers in it.
pub(crate) type Learned = (Known, Bound);

/// What an operator finds or makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) id: u64,
    pub(crate) bytes: u64,
    pub(crate) writes: bool,
}

/// What follows when an operator has ended.
#[derive(Debug, Default)]
pub(crate) struct Ensuing {
    /// A step that is known from now on, without a plan.
    pub(crate) known: Option<Box<Learned>>,
    /// What leaves, by the plan.
    pub(crate) leaves: Vec<u64>,
    /// A repetition of the step has ended.
    pub(crate) is_round: bool,
}

/// What stands for an operator: its name, and what it works on.
pub(crate) fn print_of(name: &str, found: &[Found]) -> u64 {
    // Names live as long as their library.
    let name = name.as_ptr().addr() as u64;
    let mixed = |sum: u64, number: u64| (sum.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    found.iter().fold(name, |sum, one| mixed(sum, one.bytes << 1 | u64::from(one.writes)))
}
