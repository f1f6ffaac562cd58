//! Lower bounds on the time of all plans.

use super::Costs;
use super::costs::ways;

/// Slots of the largest budget. Held bytes are rounded down to slots, so that the result is a lower bound.
const SLOTS: u64 = 10_000;

/// Lower bounds on the time, for all budgets up to the largest.
///
/// When the backward of the last stage starts, the saved stages fit the budget and all others run again: a
/// knapsack problem.
#[derive(Debug)]
pub(super) struct Bounds<'a> {
    costs: &'a Costs,
    slot_bytes: u64,
    /// Least time beyond that of saving every stage, by the slots available to stages before the last.
    seconds: Vec<f64>,
}

impl<'a> Bounds<'a> {
    pub(super) fn new(costs: &'a Costs, largest_bytes: u64) -> Self {
        let slot_bytes = largest_bytes.div_ceil(SLOTS).max(1);
        let slots = usize::try_from(largest_bytes / slot_bytes).unwrap_or(usize::MAX);
        let mut bounds = Self { costs, slot_bytes, seconds: vec![0.0; slots + 1] };
        let before_last = costs.stages().len() - 1;
        costs.stages()[..before_last].iter().for_each(|stage| bounds.add(stage));
        bounds
    }

    fn add(&mut self, stage: &super::Stage) {
        let again = if stage.must_save { f64::INFINITY } else { stage.repeat_seconds };
        let ways: Vec<_> = ways(stage)
            .map(|way| {
                let held_bytes = stage.needed_bytes(&way);
                (usize::try_from(held_bytes / self.slot_bytes).unwrap_or(usize::MAX), way.extra_seconds)
            })
            .collect();
        for slots in (0..self.seconds.len()).rev() {
            let saved =
                ways.iter().filter_map(|(held, extra)| Some(self.seconds[slots.checked_sub(*held)?] + extra));
            self.seconds[slots] = saved.fold(self.seconds[slots] + again, f64::min);
        }
    }

    /// Returns a time that no plan within the budget can beat.
    pub(super) fn seconds(&self, budget_bytes: u64) -> f64 {
        let last = self.costs.stages().len() - 1;
        let gradients = self.costs.gradient_bytes(last) + self.costs.gradient_bytes(last + 1);
        let stage = &self.costs.stages()[last];
        let of_ways = ways(stage).filter_map(|way| {
            let needed_bytes = stage.needed_bytes(&way) + stage.backward_peak(&way);
            let left = budget_bytes.checked_sub(gradients + needed_bytes)?;
            let slots = usize::try_from(left / self.slot_bytes).unwrap_or(usize::MAX);
            Some(self.seconds[slots.min(self.seconds.len() - 1)] + way.extra_seconds)
        });
        self.costs.keep_all_seconds() + of_ways.fold(f64::INFINITY, f64::min)
    }
}
