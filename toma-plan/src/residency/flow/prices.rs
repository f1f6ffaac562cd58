//! Prices of room during each operator, by which gaps are chosen.

use super::cover::{CoverTask, as_float};

/// Returns choices of gaps whose room is worth more than they cost, at the best prices and at some earlier ones.
///
/// The prices are multipliers of the constraint that all operators fit. They are raised where room lacks and lowered
/// where it is left, for so many rounds. Each round takes time linear in gaps and operators.
pub(super) fn choose(task: CoverTask<'_>, known_cost: u64, rounds: usize) -> Vec<Vec<bool>> {
    let known_cost = as_float(known_cost);
    let mut prices = vec![0.0; task.gaps.operators];
    let mut best = Choice::at(task, &prices);
    let mut current = best.clone();
    let (mut pace, mut failures) = (1.0, 0);
    let mut found = Vec::new();
    for round in 0..rounds {
        let norm: f64 = current.lacks.iter().map(|lack| lack * lack).sum();
        let stride = pace * (known_cost - current.bound).max(known_cost * 1e-3) / norm;
        if !stride.is_finite() {
            break;
        }
        for (price, lack) in prices.iter_mut().zip(&current.lacks) {
            *price = (*price + stride * lack).max(0.0);
        }
        current = Choice::at(task, &prices);
        if round % 20 == 19 {
            found.push(current.chosen.clone());
        }
        if current.bound > best.bound {
            best = current.clone();
            failures = 0;
        } else {
            failures += 1;
            if failures == 8 {
                (pace, failures) = (pace / 2.0, 0);
            }
        }
    }
    found.push(best.chosen);
    found
}

/// The cheapest choice at some prices.
#[derive(Clone, Debug)]
struct Choice {
    chosen: Vec<bool>,
    /// Bytes that lack during each operator; negative if bytes are left.
    lacks: Vec<f64>,
    /// Lower bound on the cost of any choice that fits.
    bound: f64,
}

impl Choice {
    fn at(task: CoverTask<'_>, prices: &[f64]) -> Self {
        let operators = task.gaps.operators;
        let mut sums = vec![0.0; operators + 1];
        for (operator, price) in prices.iter().enumerate() {
            sums[operator + 1] = sums[operator] + price;
        }
        let gaps = &task.gaps.rows;
        let gain = |gap: &super::gaps::Gap| {
            let room: f64 = gap.spans(operators).iter().map(|(from, to)| sums[*to] - sums[*from]).sum();
            as_float(gap.bytes) * room - as_float(gap.fetched_bytes())
        };
        let gains: Vec<f64> = gaps.iter().map(gain).collect();
        let mut of_version: Vec<f64> = task.gaps.versions.iter().map(|bytes| -as_float(*bytes)).collect();
        for (gap, gain) in gaps.iter().zip(&gains) {
            of_version[gap.version] += gain.max(0.0);
        }
        let chosen: Vec<bool> =
            gaps.iter().zip(&gains).map(|(gap, gain)| *gain > 0.0 && of_version[gap.version] > 0.0).collect();
        let mut changes = vec![0.0; operators + 1];
        for (gap, _) in gaps.iter().zip(&chosen).filter(|(_, chosen)| **chosen) {
            for (from, to) in gap.spans(operators) {
                changes[from] += as_float(gap.bytes);
                changes[to] -= as_float(gap.bytes);
            }
        }
        let mut evicted_bytes = 0.0;
        let lacks: Vec<f64> = (0..operators)
            .map(|operator| {
                evicted_bytes += changes[operator];
                as_float(task.gaps.resident[operator]) - as_float(task.budget_bytes) - evicted_bytes
            })
            .collect();
        let excess = |operator: usize| as_float(task.gaps.resident[operator]) - as_float(task.budget_bytes);
        let worth: f64 = prices.iter().enumerate().map(|(operator, price)| price * excess(operator)).sum();
        let bound = worth - of_version.iter().map(|gain| gain.max(0.0)).sum::<f64>();
        Self { chosen, lacks, bound }
    }
}
