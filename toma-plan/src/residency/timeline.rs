//! What happens when in a step that is repeated.

use super::{Next, Step};

/// The events of each storage, and those between operators.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    operators: usize,
    /// The operators that use each storage, in order.
    pub(super) uses: Vec<Vec<usize>>,
    /// What is gone before each operator begins, and at the end.
    pub(super) gone: Vec<Vec<usize>>,
    /// What each operator makes.
    pub(super) made: Vec<Vec<usize>>,
}

impl Timeline {
    pub(super) fn new(step: &Step) -> Self {
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
        Self { operators, uses, gone, made }
    }

    /// What happens to a storage after an operator, by numbers that count over all rounds.
    pub(super) fn next(&self, step: &Step, storage: usize, now: u64) -> Next {
        let operators = self.operators as u64;
        let operator = usize::try_from(now % operators).unwrap_or_default();
        let row = &step.storages[storage];
        let ahead = |at: usize| {
            let distance = (at + self.operators - operator - 1) % self.operators + 1;
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
