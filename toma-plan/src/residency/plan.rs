//! A plan and its display.

use std::fmt::{self, Write as _};

use toma_trace::Size;

use super::{Round, Step};

/// Evictions after each operator of a step, and fetches for later operators when it begins.
///
/// The plan is for a step that is repeated: a storage evicted in one round may be fetched in the next. A
/// storage that an operator lacks against the plan is fetched when the operator begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    name: &'static str,
    absences: Vec<Absence>,
    leaves: Vec<Vec<usize>>,
    fetches: Vec<Vec<usize>>,
    pub(super) round: Round,
    operator_seconds: f64,
    pub(super) peak_bytes: u64,
}

/// An eviction of a storage between two uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Absence {
    /// The storage.
    pub storage: usize,
    /// Operator after which the storage is evicted.
    pub leaves_after: usize,
    /// Fetch that ends the absence; `None` if the storage is freed first.
    pub back: Option<Back>,
}

/// Fetch of an evicted storage. Operators up to the one after which it was evicted are those of the next round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Back {
    /// Operator at whose begin the storage is fetched.
    pub fetched_at: usize,
    /// Operator that uses the storage.
    pub used_by: usize,
}

impl Plan {
    /// Creates the plan of these absences before it is simulated.
    pub(super) fn of(step: &Step, name: &'static str, absences: Vec<Absence>) -> Self {
        let operators = step.operators.len();
        let mut plan = Self {
            name,
            leaves: vec![Vec::new(); operators],
            fetches: vec![Vec::new(); operators],
            round: Round::default(),
            operator_seconds: step.seconds(),
            peak_bytes: 0,
            absences,
        };
        for absence in &plan.absences {
            plan.leaves[absence.leaves_after].push(absence.storage);
            if let Some(back) = absence.back {
                plan.fetches[back.fetched_at].push(absence.storage);
            }
        }
        plan
    }

    /// Returns the storages that are evicted when a step ends.
    pub(super) fn evicted_at_the_end(&self, step: &Step) -> impl Iterator<Item = usize> {
        let is_evicted = |absence: &&Absence| {
            let storage = step.storages[absence.storage];
            match absence.back {
                Some(back) => back.fetched_at <= absence.leaves_after,
                None => storage.lives_before() && storage.birth <= Some(absence.leaves_after),
            }
        };
        self.absences.iter().filter(is_evicted).map(|absence| absence.storage)
    }

    /// True if the plan's operators and storages are those of a step of this size. A plan of another step is of no use.
    pub fn is_of(&self, step: &Step) -> bool {
        let storages = step.storages.len();
        self.leaves.len() == step.operators.len() && self.absences.iter().all(|one| one.storage < storages)
    }

    /// Returns the name of the plan's maker.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns every absence.
    pub fn absences(&self) -> &[Absence] {
        &self.absences
    }

    /// Returns the storages that are evicted when an operator has ended, in order.
    ///
    /// # Panics
    ///
    /// If the step has no such operator.
    pub fn leaves_after(&self, operator: usize) -> &[usize] {
        &self.leaves[operator]
    }

    /// Returns the storages that are fetched when an operator begins, in order, after its own missing ones.
    ///
    /// # Panics
    ///
    /// If the step has no such operator.
    pub fn fetches_at(&self, operator: usize) -> &[usize] {
        &self.fetches[operator]
    }

    /// Returns the time of a repeated step in seconds.
    pub fn seconds(&self) -> f64 {
        self.round.seconds
    }

    /// Returns the time of the operators alone in seconds.
    pub fn operator_seconds(&self) -> f64 {
        self.operator_seconds
    }

    /// Returns the bytes that are fetched in a repeated step.
    pub fn bytes_in(&self) -> u64 {
        self.round.bytes_in
    }

    /// Returns the bytes that are copied out in a repeated step.
    pub fn bytes_out(&self) -> u64 {
        self.round.bytes_out
    }

    /// Returns the most bytes on the device.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Describes the plan for a storage, in a sentence for each absence.
    pub fn explain(&self, storage: usize) -> String {
        let mut text = String::new();
        for absence in self.absences.iter().filter(|absence| absence.storage == storage) {
            let separator = if text.is_empty() { "" } else { "; " };
            let after = absence.leaves_after;
            let written = match absence.back {
                Some(Back { fetched_at, used_by }) if fetched_at == used_by => {
                    write!(text, "{separator}leaves after operator {after}, is fetched by {used_by}")
                }
                Some(Back { fetched_at, used_by }) => {
                    write!(
                        text,
                        "{separator}leaves after operator {after}, is fetched at {fetched_at} for {used_by}"
                    )
                }
                None => write!(text, "{separator}leaves after operator {after} for good"),
            };
            debug_assert!(written.is_ok(), "a string takes all");
        }
        if text.is_empty() { "stays on the device".into() } else { text }
    }
}

/// Shows a line with the figures.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [peak, bytes_in, bytes_out] = [self.peak_bytes, self.bytes_in(), self.bytes_out()].map(Size::of);
        let Self { name, absences, operator_seconds, .. } = self;
        let stalls = self.seconds() - operator_seconds;
        write!(f, "{name}: {} absences in {peak}, {bytes_in} in, {bytes_out} out, ", absences.len())?;
        write!(f, "{operator_seconds:.3} s of operators and {stalls:.3} s of stalls")
    }
}
