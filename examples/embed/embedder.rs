//! The heart of the example: batches as large as memory allows, for texts of all lengths.

use tch::TchError;
use toma::observe::{Event, Observer, ProgressBar};
use toma::policy::Policy;
use toma::torch::DryRun;
use toma::{GlobalCache, execute};

use crate::memory::Memory;
use crate::model::Model;
use crate::summary::Summary;
use crate::texts::Tokens;
use crate::{Result, first_line};

/// Tolerance of a value between batches: sums are added up in another order.
pub(crate) const VALUE: f32 = 1e-5;

/// Embeds texts and remembers the batch sizes that fit, window after window.
pub(crate) struct Embedder<'a> {
    pub(crate) model: &'a Model,
    pub(crate) memory: &'a Memory,
    policy: Box<dyn Policy>,
    /// The largest batch, in units of `cost`.
    pub(crate) most: usize,
    pub(crate) cost: fn(u64, u64) -> u64,
    sizes: GlobalCache,
    bar: Box<dyn Observer>,
    /// The name in reports.
    pub(crate) name: String,
    pub(crate) summary: Summary,
}

impl<'a> Embedder<'a> {
    pub(crate) fn new(model: &'a Model, memory: &'a Memory, policy: Box<dyn Policy>, most: usize) -> Self {
        Self {
            model,
            memory,
            policy,
            most,
            cost: |rows, longest| rows * longest,
            sizes: GlobalCache::new(),
            bar: Box::new(ProgressBar::new()),
            name: "embed".to_owned(),
            summary: Summary::default(),
        }
    }

    /// Without a progress bar.
    pub(crate) fn quiet(self) -> Self {
        Self { bar: Box::new(|_: &Event<'_>| {}), ..self }
    }

    /// The values of all texts, in the order of the texts.
    pub(crate) fn embed(&mut self, texts: &[Tokens]) -> Result<Vec<f32>> {
        execute::with::<GlobalCache>()
            .cache(&self.sizes)
            .policy(&*self.policy)
            // Its cached memory is released before a retry.
            .device(self.memory.device())
            // The first batch is as large as fits according to a dry run.
            .predict(&DryRun)
            .observer(&*self.bar)
            .name(self.name.clone())
            .by_padded_cost(|text| texts[text].len())
            .costing(self.cost)
            .bucket_by(|tokens| tokens.next_power_of_two().max(8))
            .reports(&mut self.summary.reports)
            .map(0..texts.len(), self.most, |batch| {
                let batch: Vec<&Tokens> = batch.iter().map(|&text| &texts[text]).collect();
                let values = self.model.embed(&batch);
                self.memory.note_peak();
                values.map(|values| values.chunks_exact(self.model.width()).map(<[f32]>::to_vec).collect())
            })
            .map(|rows: Vec<_>| rows.concat())
            .map_err(|error| self.explain(&error).into())
    }

    /// If the loop has given up, the error is the smallest batch's.
    fn explain(&self, error: &TchError) -> String {
        let error = first_line(error);
        match self.summary.reports.last() {
            Some((tokens, report)) if report.gave_up.is_some() && report.out_of_memory > 0 => format!(
                "{}: not even one text of up to {tokens} tokens fits beside the model: {error}",
                self.memory
            ),
            _ => error,
        }
    }
}

/// # Errors
/// When a value differs by more than `allowed`, or is NaN. Otherwise returns the largest difference.
pub(crate) fn compare(name: &str, values: &[f32], others: &[f32], allowed: f32) -> Result<f32> {
    let mut largest = 0.0;
    for (value, other) in values.iter().zip(others) {
        let difference = (value - other).abs();
        if difference.is_nan() || difference > allowed {
            return Err(format!("check: a {name} differs by {difference:e}, allowed is {allowed:e}").into());
        }
        largest = difference.max(largest);
    }
    Ok(largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_found_wherever_it_is_and_nan_passes_no_check() {
        let largest = |others: &[f32], allowed| compare("value", &[1.0, 2.0, 3.0], others, allowed);
        assert!((largest(&[1.0, 1.5, 3.25], 0.5).unwrap() - 0.5).abs() < 1e-9);
        assert!(largest(&[1.0, 1.5, 3.25], 0.4).is_err());
        assert!(largest(&[1.0, 2.0, f32::NAN], 9.0).is_err());
    }
}
