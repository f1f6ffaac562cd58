//! A choice of gaps in which storages are evicted.

use std::cmp::Reverse;

use super::gaps::{Gap, Gaps};

/// The problem: gaps and a budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoverTask<'a> {
    pub(super) gaps: &'a Gaps,
    pub(super) budget_bytes: u64,
}

impl CoverTask<'_> {
    /// Returns the effort of one pass over all gaps and operators.
    pub(super) fn size(&self) -> u64 {
        (self.gaps.rows.len() + self.gaps.operators) as u64
    }
}

/// A choice of gaps, and the free bytes that it leaves.
#[derive(Clone, Debug)]
pub(super) struct Cover<'a> {
    pub(super) task: CoverTask<'a>,
    pub(super) chosen: Vec<bool>,
    /// Free bytes of the budget during each operator; negative if bytes are lacking.
    pub(super) free: Vec<i64>,
    /// Number of chosen gaps of each version.
    evicted: Vec<u32>,
    /// For each gap, an operator during which there was no room without that gap.
    tight: Vec<usize>,
    /// Bytes that move.
    pub(super) cost: u64,
}

impl<'a> Cover<'a> {
    /// Returns a choice in which nothing is evicted.
    pub(super) fn new(task: CoverTask<'a>) -> Self {
        let free = |resident: &u64| task.budget_bytes.cast_signed() - resident.cast_signed();
        Self {
            task,
            chosen: vec![false; task.gaps.rows.len()],
            free: task.gaps.resident.iter().map(free).collect(),
            evicted: vec![0; task.gaps.versions.len()],
            tight: task.gaps.rows.iter().map(|gap| (gap.after + 1) % task.gaps.operators).collect(),
            cost: 0,
        }
    }

    /// Returns the choice of these gaps.
    pub(super) fn of(task: CoverTask<'a>, chosen: &[bool]) -> Self {
        let mut cover = Self::new(task);
        for gap in (0..chosen.len()).filter(|gap| chosen[*gap]) {
            cover.add(gap);
        }
        cover
    }

    /// Returns the operator that lacks the most bytes, if any does.
    pub(super) fn worst(&self) -> Option<usize> {
        let (operator, free) = self.free.iter().enumerate().min_by_key(|(_, free)| **free)?;
        (*free < 0).then_some(operator)
    }

    fn gap(&self, gap: usize) -> &'a Gap {
        &self.task.gaps.rows[gap]
    }

    /// Returns the bytes that a gap moves in addition to the other chosen gaps.
    pub(super) fn price(&self, gap: usize) -> u64 {
        let row = self.gap(gap);
        let others = self.evicted[row.version] - u32::from(self.chosen[gap]);
        row.fetched_bytes() + if others == 0 { self.task.gaps.versions[row.version] } else { 0 }
    }

    pub(super) fn add(&mut self, gap: usize) {
        debug_assert!(!self.chosen[gap]);
        self.cost += self.price(gap);
        self.chosen[gap] = true;
        let row = self.gap(gap);
        self.evicted[row.version] += 1;
        self.change(row, row.bytes.cast_signed());
    }

    pub(super) fn remove(&mut self, gap: usize) {
        debug_assert!(self.chosen[gap]);
        self.cost -= self.price(gap);
        self.chosen[gap] = false;
        let row = self.gap(gap);
        self.evicted[row.version] -= 1;
        self.change(row, -row.bytes.cast_signed());
    }

    fn change(&mut self, gap: &Gap, bytes: i64) {
        for (from, to) in gap.spans(self.task.gaps.operators) {
            self.free[from..to].iter_mut().for_each(|free| *free += bytes);
        }
    }

    /// Returns an operator during which there is no room without this gap.
    fn find_tight(&self, gap: &Gap) -> Option<usize> {
        let bytes = gap.bytes.cast_signed();
        let spans = gap.spans(self.task.gaps.operators);
        spans
            .into_iter()
            .find_map(|(from, to)| Some(from + self.free[from..to].iter().position(|free| *free < bytes)?))
    }

    /// True if there is room without a gap. Looks first at the operator that had none the last time.
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

    /// Removes gaps that are not needed, the most expensive first.
    pub(super) fn prune(&mut self) {
        let mut spare = Vec::new();
        for gap in 0..self.chosen.len() {
            if self.chosen[gap] && self.price(gap) > 0 && self.may_stay(gap) {
                spare.push((Reverse(self.price(gap)), gap));
            }
        }
        spare.sort_unstable();
        for (Reverse(_), gap) in spare {
            // Each removal changes prices and room.
            if self.price(gap) > 0 && self.may_stay(gap) {
                self.remove(gap);
            }
        }
    }

    pub(super) fn chosen_gaps(&self) -> impl Iterator<Item = usize> {
        (0..self.chosen.len()).filter(|gap| self.chosen[*gap])
    }

    /// Adds gaps until all operators fit, except a barred one. Returns their number if the cost is below a limit.
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

    /// Returns the gap during an operator that frees the most lacking bytes for its cost.
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

/// Sums over the operators before one: lacking bytes, and number of operators that lack any.
#[derive(Clone, Copy, Debug, Default)]
struct Lack {
    bytes: i64,
    operators: i64,
}

#[expect(clippy::cast_precision_loss, reason = "bytes of memory are below 2^52")]
pub(super) fn as_float(bytes: u64) -> f64 {
    bytes as f64
}
