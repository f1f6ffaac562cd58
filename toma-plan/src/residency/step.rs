//! A step: operators in order, and the storages they work on.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A step that is repeated: what its operators use, make and take in between.
///
/// Operators count from 0, storages by their place in the list. One storage is one block of memory with one
/// life; a life may reach over the end of the step into the next one.
///
/// ```
/// # mod toma { pub use toma_plan as plan; }
/// use std::time::Duration;
/// use toma::plan::residency::{Operator, Step, Storage, Use};
///
/// // Two weights of 100 bytes, used in turn; each operator makes a result that the next one uses.
/// let weight = Storage { bytes: 100, birth: None, death: None, stays: false };
/// let result = Storage { bytes: 40, birth: Some(0), death: Some(2), stays: false };
/// let operator = |uses: &[usize]| Operator {
///     uses: uses.iter().map(|&storage| Use { storage, writes: false }).collect(),
///     inside_bytes: 40,
///     duration: Duration::from_millis(1),
/// };
/// let step = Step { storages: vec![weight, weight, result], operators: vec![operator(&[0]), operator(&[1, 2])] };
/// step.check()?;
/// assert_eq!((step.peak_bytes(), step.least_budget()), (280, (1, 180)));
/// # Ok::<(), toma::plan::residency::InvalidStep>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What operators work on.
    pub storages: Vec<Storage>,
    /// What is done, in order.
    pub operators: Vec<Operator>,
}

/// A block of memory from its birth to its death.
///
/// | birth | death | |
/// |---|---|---|
/// | – | – | lives always, as weights do |
/// | – | `d` | is there when a step begins, as its input is, and gone before operator `d` |
/// | `b` | `d` after `b` | lives within a step |
/// | `b` | `d` up to `b` | lives over the end of a step up to operator `d` of the next one, as gradients do |
/// | `b` | – | lives on unused, until `b` makes it anew |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    /// Its size.
    pub bytes: u64,
    /// The operator that makes it; `None` if it lives before the step.
    pub birth: Option<usize>,
    /// The operator before which it is gone: the number of operators at the end of the step. `None`: it lives on.
    pub death: Option<usize>,
    /// Whether it never leaves the device.
    pub stays: bool,
}

/// A call that works on storages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operator {
    /// What it finds and needs on the device: each storage once, without those that it makes.
    pub uses: Vec<Use>,
    /// The most bytes that it allocates beyond those at its start, results included.
    pub inside_bytes: u64,
    /// How long it takes with everything on the device.
    pub duration: Duration,
}

/// A storage that an operator finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Use {
    /// Its number.
    pub storage: usize,
    /// Whether the operator changes it, so that copies elsewhere are void.
    pub writes: bool,
}

impl Storage {
    /// Whether an operator can use it. One that makes it does not.
    fn may_be_used_by(&self, operator: usize) -> bool {
        match (self.birth, self.death) {
            (None, death) => death.is_none_or(|death| operator < death),
            (Some(birth), None) => birth < operator,
            (Some(birth), Some(death)) if death <= birth => operator < death || birth < operator,
            (Some(birth), Some(death)) => birth < operator && operator < death,
        }
    }

    /// Whether it is there when a step begins.
    pub(super) fn lives_before(&self) -> bool {
        self.birth.is_none_or(|birth| self.death.is_none_or(|death| death <= birth))
    }

    /// Whether it is made anew between two steps, by no operator.
    pub(super) fn comes_with_each_step(&self) -> bool {
        self.birth.is_none() && self.death.is_some()
    }

    /// The operator before which it is gone, within its step or the next one.
    pub(super) fn end(&self) -> Option<usize> {
        self.death.or(self.birth)
    }
}

impl Step {
    /// The most bytes that all storages and the inside of an operator may have together: 256 TiB.
    pub const MOST_BYTES: u64 = 1 << 48;

    /// Whether the rows fit each other. All functions that take a step panic where they do not.
    ///
    /// # Errors
    ///
    /// The first row that cannot be.
    pub fn check(&self) -> Result<(), InvalidStep> {
        if self.operators.is_empty() {
            return Err(InvalidStep::NoOperators);
        }
        let operators = self.operators.len();
        for (index, storage) in self.storages.iter().enumerate() {
            let beyond = storage.birth.filter(|birth| *birth >= operators);
            if let Some(operator) = beyond.or(storage.death.filter(|death| *death > operators)) {
                return Err(InvalidStep::NoSuchOperator { storage: index, operator, operators });
            }
        }
        self.check_uses()?;
        self.check_sums()
    }

    fn check_uses(&self) -> Result<(), InvalidStep> {
        let mut used_by = vec![None; self.storages.len()];
        for (operator, row) in self.operators.iter().enumerate() {
            for &Use { storage, .. } in &row.uses {
                let Some(found) = self.storages.get(storage) else {
                    let storages = self.storages.len();
                    return Err(InvalidStep::NoSuchStorage { operator, storage, storages });
                };
                if used_by[storage].replace(operator) == Some(operator) {
                    return Err(InvalidStep::UsedTwice { operator, storage });
                }
                if !found.may_be_used_by(operator) {
                    return Err(InvalidStep::NotAlive { operator, storage });
                }
            }
        }
        Ok(())
    }

    /// So that no sum of bytes overflows.
    fn check_sums(&self) -> Result<(), InvalidStep> {
        let most = self.operators.iter().map(|operator| operator.inside_bytes).max();
        let all = self.storages.iter().map(|storage| storage.bytes).chain(most);
        let sum = all.into_iter().try_fold(0_u64, u64::checked_add);
        sum.filter(|sum| *sum <= Self::MOST_BYTES).map(drop).ok_or(InvalidStep::TooManyBytes)
    }

    /// The bytes that lie on the device while each operator runs, if nothing leaves, with all it allocates.
    pub(super) fn resident_bytes(&self) -> Vec<u64> {
        self.bytes_beside(|_| true)
    }

    /// The most bytes that lie on the device at once if nothing leaves.
    pub fn peak_bytes(&self) -> u64 {
        self.resident_bytes().into_iter().max().unwrap_or(0)
    }

    /// The first operator that needs the least budget in which all run, and that budget in bytes.
    ///
    /// It is the largest sum of what an operator uses, what it allocates, and what never leaves.
    pub fn least_budget(&self) -> (usize, u64) {
        let needed = self.needed_bytes();
        let most = needed.iter().enumerate().rev().max_by_key(|(_, bytes)| **bytes);
        most.map_or((0, 0), |(operator, bytes)| (operator, *bytes))
    }

    /// The bytes that must lie on the device while each operator runs.
    pub(super) fn needed_bytes(&self) -> Vec<u64> {
        let mut needed = self.bytes_beside(|storage| storage.stays);
        for (operator, needed) in self.operators.iter().zip(&mut needed) {
            let movable = operator.uses.iter().map(|used| self.storages[used.storage]);
            *needed += movable.filter(|storage| !storage.stays).map(|storage| storage.bytes).sum::<u64>();
        }
        needed
    }

    fn bytes_beside(&self, counts: impl Fn(&Storage) -> bool) -> Vec<u64> {
        let counted = || self.storages.iter().filter(|storage| counts(storage));
        let mut changes = vec![0_i64; self.operators.len() + 1];
        for storage in counted() {
            let bytes = storage.bytes.cast_signed();
            for (from, to) in storage.spans(self.operators.len()).into_iter().flatten() {
                changes[from] += bytes;
                changes[to] -= bytes;
            }
        }
        let mut living = 0;
        let beside = self.operators.iter().zip(changes).map(|(operator, change)| {
            living += change;
            living.cast_unsigned() + operator.inside_bytes
        });
        beside.collect()
    }
}

impl Storage {
    /// The operators beside which it lives: at most two ranges, each without its end.
    pub(super) fn spans(&self, operators: usize) -> [Option<(usize, usize)>; 2] {
        let end = self.death.unwrap_or(operators);
        match self.birth {
            None => [Some((0, end)), None],
            Some(birth) if self.lives_before() => {
                let until = self.death.unwrap_or(birth);
                [Some((0, until)), Some((birth + 1, operators))]
            }
            Some(birth) => [Some((birth + 1, end)), None],
        }
    }
}

/// A step whose rows do not fit each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what the values are")]
#[non_exhaustive]
pub enum InvalidStep {
    /// There is nothing to do.
    #[error("a step has no operators")]
    NoOperators,
    /// A birth or death lies beyond the end.
    #[error("storage {storage} is born or gone at operator {operator} of {operators}")]
    NoSuchOperator { storage: usize, operator: usize, operators: usize },
    /// A use names a storage that is not in the list.
    #[error("operator {operator} uses storage {storage} of {storages}")]
    NoSuchStorage { operator: usize, storage: usize, storages: usize },
    /// One operator lists a storage twice.
    #[error("operator {operator} lists storage {storage} twice")]
    UsedTwice { operator: usize, storage: usize },
    /// The storage is not born, made by the operator itself, or gone.
    #[error("operator {operator} uses storage {storage}, which is not there when it begins")]
    NotAlive { operator: usize, storage: usize },
    /// Sums of what moves could overflow.
    #[error("the bytes of all storages and the most inside an operator exceed {} together", Step::MOST_BYTES)]
    TooManyBytes,
}
