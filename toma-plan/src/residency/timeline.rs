//! Events of a repeated step.

use super::{Next, Step, Storage};

/// Times at which each storage of a step is used and freed, for [`Candidate::next`](super::Candidate::next).
///
/// ```
/// use std::time::Duration;
/// use toma_plan::residency::{Next, Operator, Step, Storage, Timeline, Use};
///
/// let weight = Storage { bytes: 100, birth: None, death: None, stays: false };
/// let operator = |uses| Operator { uses, inside_bytes: 0, duration: Duration::ZERO };
/// let uses = vec![Use { storage: 0, writes: false }];
/// let step = Step { storages: vec![weight], operators: vec![operator(uses), operator(Vec::new())] };
/// let timeline = Timeline::new(&step);
/// // Operator 0 of the next step and of the one after it are number 2 and 4.
/// assert_eq!([0, 1, 2].map(|now| timeline.next(0, now)), [2, 2, 4].map(Next::Use));
/// ```
#[derive(Clone, Debug)]
pub struct Timeline {
    storages: Vec<Storage>,
    /// The operators that use each storage, in order.
    uses: Vec<Vec<usize>>,
    /// Storages that are freed before each operator begins, and at the end.
    gone: Vec<Vec<usize>>,
    /// Storages that each operator makes.
    made: Vec<Vec<usize>>,
}

impl Timeline {
    /// Builds the timeline of a step.
    ///
    /// # Panics
    ///
    /// If the step is [invalid](Step::check).
    pub fn new(step: &Step) -> Self {
        step.check().unwrap_or_else(|error| panic!("{error}"));
        let operators = step.operators.len();
        let mut uses = vec![Vec::new(); step.storages.len()];
        for (operator, row) in step.operators.iter().enumerate() {
            row.uses.iter().for_each(|used| uses[used.storage].push(operator));
        }
        let mut gone = vec![Vec::new(); operators + 1];
        let mut made = vec![Vec::new(); operators];
        for (index, storage) in step.storages.iter().enumerate() {
            storage.end().into_iter().for_each(|end| gone[end].push(index));
            storage.birth.into_iter().for_each(|birth| made[birth].push(index));
        }
        Self { storages: step.storages.clone(), uses, gone, made }
    }

    /// Returns the storages that are freed before an operator begins; the number of operators stands for the end.
    pub(super) fn gone(&self, operator: usize) -> &[usize] {
        &self.gone[operator]
    }

    /// Returns the storages that an operator makes.
    pub(super) fn made(&self, operator: usize) -> &[usize] {
        &self.made[operator]
    }

    /// Returns the next event of a storage after the operator of a number.
    ///
    /// Numbers count over all repetitions: a step of n operators begins with 0, n, 2 n.
    ///
    /// # Panics
    ///
    /// If the step has no such storage.
    pub fn next(&self, storage: usize, now: u64) -> Next {
        let operators = self.made.len();
        let operator = usize::try_from(now % operators as u64).unwrap_or_default();
        let row = &self.storages[storage];
        let ahead = |at: usize| {
            let distance = (at + operators - operator - 1) % operators + 1;
            now + distance as u64
        };
        let all = &self.uses[storage];
        let later = all.partition_point(|at| *at <= operator);
        if let (Some(birth), None) = (row.birth, row.death) {
            let again = all.get(later).filter(|_| birth <= operator);
            return again.map_or(Next::Never, |at| Next::Use(ahead(*at)));
        }
        let again = all.get(later).or(all.first()).map(|at| ahead(*at));
        match (again, row.death.map(ahead)) {
            (Some(again), death) if death.is_none_or(|death| again < death) => Next::Use(again),
            (_, Some(death)) => Next::Death(death),
            (_, None) => Next::Never,
        }
    }
}
