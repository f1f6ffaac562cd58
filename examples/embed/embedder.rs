//! The heart of the example: batches as large as memory allows, for texts of all lengths.

use std::ops::Range;

use tch::TchError;
use toma::observe::{Event, Observer, ProgressBar};
use toma::policy::Policy;
use toma::report;
use toma::torch::DryRun;
use toma::{GlobalCache, execute};

use crate::memory::Memory;
use crate::model::Model;
use crate::summary::Summary;
use crate::texts::{Bucket, Tokens, Work};
use crate::{Result, first_line};

/// By how much a value may differ between batches: sums are added up in another order.
pub(crate) const VALUE: f32 = 1e-5;

/// Embeds texts and remembers, window after window, how large batches may be.
pub(crate) struct Embedder<'a> {
    pub(crate) model: &'a Model,
    pub(crate) memory: &'a Memory,
    policy: Box<dyn Policy>,
    /// The largest batch.
    pub(crate) most: usize,
    sizes: GlobalCache,
    bar: Box<dyn Observer>,
    /// What calls are called; by their bucket when there is none.
    pub(crate) name: Option<String>,
    pub(crate) summary: Summary,
}

impl<'a> Embedder<'a> {
    pub(crate) fn new(model: &'a Model, memory: &'a Memory, policy: Box<dyn Policy>, most: usize) -> Self {
        let (sizes, bar) = (GlobalCache::new(), Box::new(ProgressBar::new()));
        Self { model, memory, policy, most, sizes, bar, name: None, summary: Summary::default() }
    }

    /// Without a progress bar.
    pub(crate) fn quiet(self) -> Self {
        Self { bar: Box::new(|_: &Event<'_>| {}), ..self }
    }

    /// One row per text, in the order of the texts.
    pub(crate) fn embed(&mut self, texts: &[Tokens]) -> Result<Vec<f32>> {
        let work = Work::longest_first(texts);
        let mut rows = vec![0.0; texts.len() * self.model.width()];
        for bucket in work.buckets(usize::MAX) {
            self.embed_bucket(&work, &bucket, &mut rows)?;
        }
        Ok(rows)
    }

    /// Writes the rows of one bucket, and adds to the summary what it took.
    pub(crate) fn embed_bucket(&mut self, work: &Work<'_>, bucket: &Bucket, rows: &mut [f32]) -> Result<()> {
        self.adapt(work, bucket, rows).map_err(|error| self.explain(bucket, &error))?;
        self.summary.add(bucket.most_tokens, report::last().ok_or("there is no report")?);
        Ok(())
    }

    fn adapt(&self, work: &Work<'_>, bucket: &Bucket, rows: &mut [f32]) -> std::result::Result<(), TchError> {
        let Bucket { most_tokens, range } = bucket.clone();
        // The first of a bucket is the longest, so a dry run of the first texts says what any others take at most.
        let longest = range.clone().next().map(|place| work.texts[work.order[place]].len());
        // Not by cost: the memory of attention does not grow in proportion to tokens.
        execute::with::<GlobalCache>()
            .cache(&self.sizes)
            // Long texts take more memory than short ones: each bucket remembers a size of its own.
            .key((most_tokens, longest))
            .policy(&*self.policy)
            // Its cached memory is released before a retry.
            .device(self.memory.device())
            // The first batch is as large as fits, as far as a dry run knows.
            .predict(&DryRun)
            .observer(&*self.bar)
            .name(self.name.clone().unwrap_or_else(|| format!("up to {most_tokens} tokens")))
            .range(range, self.most, |start, end| {
                let done = self.attempt(work, start..end, rows);
                self.memory.note_peak();
                done
            })
    }

    /// One batch. What fails has written nothing.
    fn attempt(
        &self,
        work: &Work<'_>,
        places: Range<usize>,
        rows: &mut [f32],
    ) -> std::result::Result<(), TchError> {
        let batch: Vec<&Tokens> =
            work.order[places.clone()].iter().map(|&place| &work.texts[place]).collect();
        work.scatter(places, &self.model.embed(&batch)?, rows);
        Ok(())
    }

    /// The error is the one of the smallest batch when the loop has given up.
    fn explain(&self, bucket: &Bucket, error: &TchError) -> String {
        let error = first_line(error);
        match report::last() {
            Some(report) if report.gave_up.is_some() && report.out_of_memory > 0 => format!(
                "{}: not even one text of up to {} tokens fits beside the model: {error}",
                self.memory, bucket.most_tokens
            ),
            _ => error,
        }
    }
}

/// # Errors
/// When a value differs by more than `allowed`, or is none. Otherwise the largest difference.
pub(crate) fn compare(what: &str, values: &[f32], others: &[f32], allowed: f32) -> Result<f32> {
    let mut largest = 0.0;
    for (value, other) in values.iter().zip(others) {
        let difference = (value - other).abs();
        if difference.is_nan() || difference > allowed {
            return Err(format!("check: a {what} differs by {difference:e}, allowed is {allowed:e}").into());
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
