//! A step: operators in order, and the storages they work on.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A step that is repeated: its operators with their uses, results and allocations.
///
/// Operators count from 0, storages by their index in the list. One storage is one block of memory with one lifetime,
/// which may reach over the end of the step into the next one.
///
/// ```
/// use std::time::Duration;
/// use toma_plan::residency::{Operator, Step, Storage, Use};
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
/// # Ok::<(), toma_plan::residency::InvalidStep>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Storages that the operators use.
    pub storages: Vec<Storage>,
    /// Operators in order.
    pub operators: Vec<Operator>,
}

/// A block of memory from its birth to its death.
///
/// | birth | death | |
/// |---|---|---|
/// | – | – | always exists, as weights do |
/// | – | `d` | exists when a step begins, as its input does, and is freed before operator `d` |
/// | `b` | `d` after `b` | exists within a step |
/// | `b` | `d` up to `b` | exists over the end of a step until operator `d` of the next one, as gradients do |
/// | `b` | – | exists unused until `b` makes it anew |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    /// Size in bytes.
    pub bytes: u64,
    /// Operator that makes it; `None` if it exists before the step.
    pub birth: Option<usize>,
    /// Operator before which it is freed: the number of operators at the end of the step. `None` if it outlives the
    /// step.
    pub death: Option<usize>,
    /// True if it is never evicted.
    pub stays: bool,
}

/// A call that works on storages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operator {
    /// Storages that it needs on the device: each once, without those that it makes.
    pub uses: Vec<Use>,
    /// The most bytes that it allocates in addition to those at its start, results included.
    pub inside_bytes: u64,
    /// Run time with everything on the device.
    pub duration: Duration,
}

/// A storage that an operator needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Use {
    /// Number of the storage.
    pub storage: usize,
    /// True if the operator changes the storage, so that copies elsewhere become invalid.
    pub writes: bool,
}

impl Storage {
    /// True if an operator can use the storage. The operator that makes it cannot.
    pub(super) fn may_be_used_by(&self, operator: usize) -> bool {
        match (self.birth, self.death) {
            (None, death) => death.is_none_or(|death| operator < death),
            (Some(birth), None) => birth < operator,
            (Some(birth), Some(death)) if death <= birth => operator < death || birth < operator,
            (Some(birth), Some(death)) => birth < operator && operator < death,
        }
    }

    /// True if the storage exists when a step begins.
    pub(super) fn lives_before(&self) -> bool {
        self.birth.is_none_or(|birth| self.death.is_none_or(|death| death <= birth))
    }

    /// True if the storage is made anew between two steps, by no operator.
    pub(super) fn comes_with_each_step(&self) -> bool {
        self.birth.is_none() && self.death.is_some()
    }

    /// Returns the operator before which the storage is freed, within its step or the next one.
    pub(super) fn end(&self) -> Option<usize> {
        self.death.or(self.birth)
    }
}

impl Step {
    /// The most bytes that all storages and the inside of an operator may have together: 256 TiB.
    pub const MOST_BYTES: u64 = 1 << 48;

    /// Checks that the rows are consistent. All functions that take a step panic if they are not.
    ///
    /// # Errors
    ///
    /// The first inconsistent row.
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

    /// Checks that no sum of bytes overflows.
    fn check_sums(&self) -> Result<(), InvalidStep> {
        let most = self.operators.iter().map(|operator| operator.inside_bytes).max();
        let all = self.storages.iter().map(|storage| storage.bytes).chain(most);
        let sum = all.into_iter().try_fold(0_u64, u64::checked_add);
        sum.filter(|sum| *sum <= Self::MOST_BYTES).map(drop).ok_or(InvalidStep::TooManyBytes)
    }

    /// Returns the bytes on the device while each operator runs, with all that it allocates, if nothing is evicted.
    pub(super) fn resident_bytes(&self) -> Vec<u64> {
        self.bytes_beside(|_| true)
    }

    /// Returns the most bytes on the device at once if nothing is evicted.
    pub fn peak_bytes(&self) -> u64 {
        self.resident_bytes().into_iter().max().unwrap_or(0)
    }

    /// Returns the first operator that needs the least budget in which all run, and that budget in bytes.
    ///
    /// The budget is the largest sum of an operator's uses, its allocations, and the storages that are never evicted.
    pub fn least_budget(&self) -> (usize, u64) {
        let needed = self.needed_bytes();
        let most = needed.iter().enumerate().rev().max_by_key(|(_, bytes)| **bytes);
        most.map_or((0, 0), |(operator, bytes)| (operator, *bytes))
    }

    /// Returns the bytes that must be on the device while each operator runs.
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
    /// Returns the operators during which the storage exists: at most two ranges, each without its end.
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

/// Inconsistencies of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what the values are")]
#[non_exhaustive]
pub enum InvalidStep {
    /// There is no operator.
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
    /// The storage is not born, made by the operator itself, or already freed.
    #[error("operator {operator} uses storage {storage}, which is not there when it begins")]
    NotAlive { operator: usize, storage: usize },
    /// Sums of bytes could overflow.
    #[error("the bytes of all storages and the most inside an operator exceed {} together", Step::MOST_BYTES)]
    TooManyBytes,
}
