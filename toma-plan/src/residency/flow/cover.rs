//! A choice of gaps in which storages are away.

use std::cmp::Reverse;

use super::gaps::{Gap, Gaps};

/// The problem: gaps and a budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task<'a> {
    pub(super) gaps: &'a Gaps,
    pub(super) budget_bytes: u64,
}

impl Task<'_> {
    /// How long one look at everything takes.
    pub(super) fn size(&self) -> u64 {
        (self.gaps.rows.len() + self.gaps.operators) as u64
    }
}

/// Which gaps are chosen, and what room they leave.
#[derive(Clone, Debug)]
pub(super) struct Cover<'a> {
    pub(super) task: Task<'a>,
    pub(super) chosen: Vec<bool>,
    /// Bytes of the budget that are free beside each operator; below 0 they are lacking.
    pub(super) free: Vec<i64>,
    /// How many gaps of each version are chosen.
    away: Vec<u32>,
    /// An operator of each gap, beside which there was no room without it.
    tight: Vec<usize>,
    /// The bytes that move.
    pub(super) cost: u64,
}

impl<'a> Cover<'a> {
    /// Nothing is away.
    pub(super) fn new(task: Task<'a>) -> Self {
        let free = |resident: &u64| task.budget_bytes.cast_signed() - resident.cast_signed();
        Self {
            task,
            chosen: vec![false; task.gaps.rows.len()],
            free: task.gaps.resident.iter().map(free).collect(),
            away: vec![0; task.gaps.versions.len()],
            tight: task.gaps.rows.iter().map(|gap| (gap.after + 1) % task.gaps.operators).collect(),
            cost: 0,
        }
    }

    /// These gaps are chosen.
    pub(super) fn of(task: Task<'a>, chosen: &[bool]) -> Self {
        let mut cover = Self::new(task);
        for gap in (0..chosen.len()).filter(|gap| chosen[*gap]) {
            cover.add(gap);
        }
        cover
    }

    /// The operator that lacks most.
    pub(super) fn worst(&self) -> Option<usize> {
        let (operator, free) = self.free.iter().enumerate().min_by_key(|(_, free)| **free)?;
        (*free < 0).then_some(operator)
    }

    fn gap(&self, gap: usize) -> &'a Gap {
        &self.task.gaps.rows[gap]
    }

    /// The bytes that a gap moves beyond those of the others that are chosen.
    pub(super) fn price(&self, gap: usize) -> u64 {
        let row = self.gap(gap);
        let others = self.away[row.version] - u32::from(self.chosen[gap]);
        row.fetched_bytes() + if others == 0 { self.task.gaps.versions[row.version] } else { 0 }
    }

    pub(super) fn add(&mut self, gap: usize) {
        debug_assert!(!self.chosen[gap]);
        self.cost += self.price(gap);
        self.chosen[gap] = true;
        let row = self.gap(gap);
        self.away[row.version] += 1;
        self.change(row, row.bytes.cast_signed());
    }

    pub(super) fn remove(&mut self, gap: usize) {
        debug_assert!(self.chosen[gap]);
        self.cost -= self.price(gap);
        self.chosen[gap] = false;
        let row = self.gap(gap);
        self.away[row.version] -= 1;
        self.change(row, -row.bytes.cast_signed());
    }

    fn change(&mut self, gap: &Gap, bytes: i64) {
        for (from, to) in gap.spans(self.task.gaps.operators) {
            self.free[from..to].iter_mut().for_each(|free| *free += bytes);
        }
    }

    /// An operator beside which there is no room without this gap.
    fn find_tight(&self, gap: &Gap) -> Option<usize> {
        let bytes = gap.bytes.cast_signed();
        let spans = gap.spans(self.task.gaps.operators);
        spans
            .into_iter()
            .find_map(|(from, to)| Some(from + self.free[from..to].iter().position(|free| *free < bytes)?))
    }

    /// Whether there is room without a gap. It looks first where there was none the last time.
    fn may_stay(&mut self, gap: usize) -> bool {
        let row = self.gap(gap);
        if self.free[self.tight[gap]] >= row.bytes.cast_signed() {
            match self.find_tight(row) {
                None => return true,
                Some(tight) => self.tight[gap] = tight,
            }
        }
        false
    }

    /// Takes back what is not needed, the most expensive first.
    pub(super) fn prune(&mut self) {
        let mut spare = Vec::new();
        for gap in 0..self.chosen.len() {
            if self.chosen[gap] && self.price(gap) > 0 && self.may_stay(gap) {
                spare.push((Reverse(self.price(gap)), gap));
            }
        }
        spare.sort_unstable();
        for (Reverse(_), gap) in spare {
            // Prices change with what is taken back, and so does room.
            if self.price(gap) > 0 && self.may_stay(gap) {
                self.remove(gap);
            }
        }
    }

    pub(super) fn chosen_gaps(&self) -> impl Iterator<Item = usize> {
        (0..self.chosen.len()).filter(|gap| self.chosen[*gap])
    }

    /// Chooses gaps until all fits, without one that is barred. Returns how many, if all costs less than a limit.
    pub(super) fn repair(&mut self, barred: Option<usize>, limit: u64) -> Option<u64> {
        let operators = self.task.gaps.operators;
        let mut lacks = vec![Lack::default(); operators + 1];
        let mut added = 0;
        while self.cost < limit {
            let mut worst = (0, 0);
            for (operator, free) in self.free.iter().enumerate() {
                let bytes = (-free).max(0);
                worst = worst.max((bytes, operator));
                let before = lacks[operator];
                lacks[operator + 1] = Lack {
                    bytes: before.bytes.saturating_add(bytes),
                    operators: before.operators + i64::from(bytes > 0),
                };
            }
            let (bytes, operator) = worst;
            if bytes == 0 {
                return Some(added);
            }
            let gap = self.best_at(operator, &lacks, barred)?;
            self.add(gap);
            added += 1;
        }
        None
    }

    /// The gap over an operator that makes the most room where it lacks for what it costs.
    fn best_at(&self, operator: usize, lacks: &[Lack], barred: Option<usize>) -> Option<usize> {
        let operators = self.task.gaps.operators;
        let mut best: Option<(f64, usize)> = None;
        for (gap, row) in self.task.gaps.beside(operator) {
            if self.chosen[gap] || barred == Some(gap) {
                continue;
            }
            let spans = row.spans(operators);
            let room = |(from, to): (usize, usize)| {
                let [from, to] = [lacks[from], lacks[to]];
                (to.bytes - from.bytes)
                    .min(row.bytes.cast_signed().saturating_mul(to.operators - from.operators))
            };
            #[expect(clippy::cast_precision_loss, reason = "a ratio")]
            let room = spans.into_iter().map(room).fold(0, i64::saturating_add) as f64;
            let ratio = as_float(self.price(gap)) / room;
            if best.is_none_or(|(least, _)| ratio < least) {
                best = Some((ratio, gap));
            }
        }
        best.map(|(_, gap)| gap)
    }
}

/// What lacks before an operator: bytes, and operators that lack any.
#[derive(Clone, Copy, Debug, Default)]
struct Lack {
    bytes: i64,
    operators: i64,
}

#[expect(clippy::cast_precision_loss, reason = "bytes of memory are below 2^52")]
pub(super) fn as_float(bytes: u64) -> f64 {
    bytes as f64
}
