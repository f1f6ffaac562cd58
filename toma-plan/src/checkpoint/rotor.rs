//! The table of rotor: the least time of each state, at each number of slots.

use super::recurrence::{Branch, Choice, Recurrence};
use super::{Action, Costs};

/// Slots of the largest budget. A stage's bytes are rounded up to slots, so 50 stages that are held at once
/// waste half a slot each on average: 1.8 % of the budget, for a table of 16 MB.
const SLOTS: u64 = 1400;
/// Limit on slots beyond the budget. Plans of that many are tried, too, because without the rounding they may
/// fit all the same.
const MARGIN: u64 = SLOTS / 16;
/// Limit on numbers in a table, 64 MB in addition to the margin: chains of more than about 100 stages get fewer slots.
const NUMBERS: u64 = 1 << 23;

/// A plan, and its time according to the table.
pub(super) struct Timed {
    pub(super) seconds: f64,
    pub(super) actions: Vec<Action>,
    /// True if the plan takes more slots than the budget has.
    pub(super) is_beyond: bool,
}

#[derive(Debug)]
pub(super) struct Table<'a> {
    recurrence: Recurrence<'a>,
    slot_bytes: u64,
    slots: usize,
    margin: usize,
    /// Least seconds by start, length and slots; infinite if a state does not fit.
    seconds: Vec<Vec<f64>>,
}

impl<'a> Table<'a> {
    /// Builds a table for all budgets up to the largest.
    pub(super) fn new(costs: &'a Costs, largest_bytes: u64) -> Self {
        let recurrence = Recurrence::new(costs);
        let count = recurrence.count() as u64;
        let slots = SLOTS.min(NUMBERS / (count * (count + 1) / 2)).max(1);
        let slot_bytes = largest_bytes.div_ceil(slots).max(1);
        // Slots of one byte round nothing.
        let margin = if slot_bytes == 1 { 0 } else { MARGIN.min(slots / 2) };
        let [slots, margin] = [largest_bytes / slot_bytes, margin].map(to_usize);
        let seconds = Vec::with_capacity(recurrence.count());
        let mut table = Self { recurrence, slot_bytes, slots, margin, seconds };
        table.fill();
        table
    }

    fn width(&self) -> usize {
        self.slots + self.margin + 1
    }

    fn fill(&mut self) {
        let (count, width) = (self.recurrence.count(), self.width());
        self.seconds = (0..count).map(|start| vec![f64::INFINITY; (count - start) * width]).collect();
        let mut best = vec![0.0; width];
        for start in (0..count).rev() {
            for last in start..count {
                best.fill(f64::INFINITY);
                for branch in self.recurrence.saves(start, last).chain(self.recurrence.splits(start, last)) {
                    self.relax(branch, start, last, &mut best);
                }
                let offset = (last - start) * width;
                self.seconds[start][offset..offset + width].copy_from_slice(&best);
            }
        }
    }

    fn row(&self, start: usize, last: usize) -> &[f64] {
        &self.seconds[start][(last - start) * self.width()..][..self.width()]
    }

    fn slots_of(&self, bytes: u64) -> usize {
        to_usize(bytes.div_ceil(self.slot_bytes)).min(self.width())
    }

    /// Takes a branch wherever it is faster than the best one so far.
    fn relax(&self, branch: Branch, start: usize, last: usize, best: &mut [f64]) {
        let held = self.slots_of(branch.held_bytes);
        let from = self.slots_of(branch.needs_bytes).max(held);
        if from >= self.width() {
            return;
        }
        let best = &mut best[from..];
        match branch.choice {
            Choice::Save(_) if start == last => {
                for best in best {
                    *best = best.min(branch.seconds);
                }
            }
            Choice::Save(_) => {
                let after = &self.row(start + 1, last)[from - held..];
                for (best, after) in best.iter_mut().zip(after) {
                    *best = best.min(branch.seconds + after);
                }
            }
            Choice::Split(at) => {
                let after = &self.row(at, last)[from - held..];
                let before = &self.row(start, at - 1)[from..];
                for ((best, after), before) in best.iter_mut().zip(after).zip(before) {
                    *best = best.min(branch.seconds + after + before);
                }
            }
        }
    }

    /// Returns the fastest plan for so many slots, if there is one.
    fn plan(&self, slots: usize, is_beyond: bool) -> Option<Timed> {
        let seconds = self.row(0, self.recurrence.count() - 1)[slots];
        let actions = || {
            self.recurrence.actions(slots, |start, last, slots| {
                let branches = self.recurrence.saves(start, last).chain(self.recurrence.splits(start, last));
                let timed = branches.map(|branch| (self.seconds_of(branch, start, last, slots), branch));
                let fastest = timed.min_by(|(a, _), (b, _)| a.total_cmp(b));
                let (_, branch) = fastest.expect("a stage can be saved");
                (branch.choice, slots - self.slots_of(branch.held_bytes))
            })
        };
        seconds.is_finite().then(|| Timed { seconds, actions: actions(), is_beyond })
    }

    fn seconds_of(&self, branch: Branch, start: usize, last: usize, slots: usize) -> f64 {
        let held = self.slots_of(branch.held_bytes);
        if self.slots_of(branch.needs_bytes).max(held) > slots {
            return f64::INFINITY;
        }
        match branch.choice {
            Choice::Save(_) if start == last => branch.seconds,
            Choice::Save(_) => branch.seconds + self.row(start + 1, last)[slots - held],
            Choice::Split(at) => {
                branch.seconds + self.row(at, last)[slots - held] + self.row(start, at - 1)[slots]
            }
        }
    }

    /// Returns plans for a budget, the fastest first. All but the last may not fit.
    pub(super) fn plans(&self, budget_bytes: u64) -> impl Iterator<Item = Timed> {
        let slots = to_usize(budget_bytes / self.slot_bytes).min(self.slots);
        let row = self.row(0, self.recurrence.count() - 1);
        let beyond = (slots + 1..=slots + self.margin).rev();
        // If one slot less takes as much time, the plan is more or less the same.
        let differs = beyond.filter(|&slots| row[slots] < row[slots - 1]);
        differs.chain([slots]).filter_map(move |more| self.plan(more, more > slots))
    }
}

fn to_usize(slots: u64) -> usize {
    usize::try_from(slots).unwrap_or(usize::MAX)
}
