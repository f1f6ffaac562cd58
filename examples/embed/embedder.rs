//! The heart of the example: batches as large as memory allows, for texts of all lengths.

use std::ops::Range;

use tch::TchError;
use toma::observe::{Event, Observer, ProgressBar, report};
use toma::{GlobalCache, Policy, execute};

use crate::buckets::{Bucket, buckets, longest_first, scatter};
use crate::clock::Clock;
use crate::memory::Memory;
use crate::model::Model;
use crate::summary::Summary;
use crate::tokens::Tokens;
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
    name: Option<String>,
}

/// Texts and where they are in the order of work.
pub(crate) struct Work<'a> {
    model: &'a Model,
    texts: &'a [Tokens],
    order: Vec<usize>,
}

impl<'a> Embedder<'a> {
    pub(crate) fn new(model: &'a Model, memory: &'a Memory, policy: Box<dyn Policy>, most: usize) -> Self {
        Self {
            model,
            memory,
            policy,
            most,
            sizes: GlobalCache::new(),
            bar: Box::new(ProgressBar::new()),
            name: None,
        }
    }

    /// Without a progress bar.
    pub(crate) fn quiet(self) -> Self {
        Self { bar: Box::new(|_: &Event<'_>| {}), ..self }
    }

    /// With this name in events and reports.
    pub(crate) fn named(self, name: String) -> Self {
        Self { name: Some(name), ..self }
    }

    /// One row per text, in the order of the texts; adds to the summary what it took.
    pub(crate) fn embed(&self, texts: &[Tokens], summary: &mut Summary) -> Result<Vec<f32>> {
        let work = Work::longest_first(self.model, texts);
        let mut rows = work.rows();
        for bucket in work.buckets() {
            self.embed_bucket(&work, &bucket, &mut rows, summary)?;
        }
        Ok(rows)
    }

    /// The same for one bucket, or a portion of it.
    pub(crate) fn embed_bucket(
        &self,
        work: &Work<'_>,
        bucket: &Bucket,
        rows: &mut [f32],
        summary: &mut Summary,
    ) -> Result<()> {
        self.memory.reset_peak()?;
        let clock = Clock::start();
        if let Err(error) = self.adapt(work, bucket, rows) {
            return Err(self.explain(bucket, &error).into());
        }
        let spent = clock.spent();
        summary.add_texts(bucket.range.len(), work.tokens(&bucket.range), spent);
        summary.add_bucket(bucket, report::last().ok_or("there is no report")?);
        summary.peak_bytes = summary.peak_bytes.max(self.memory.peak_bytes()?);
        Ok(())
    }

    fn adapt(&self, work: &Work<'_>, bucket: &Bucket, rows: &mut [f32]) -> std::result::Result<(), TchError> {
        let Bucket { most_tokens, range } = bucket.clone();
        execute::with::<GlobalCache>()
            .cache(&self.sizes)
            // Long texts take more memory than short ones: each bucket remembers a size of its own.
            .key(most_tokens)
            .policy(&*self.policy)
            // Its cached memory is released before a retry.
            .device(self.memory.device())
            .observer(&*self.bar)
            .name(self.name.clone().unwrap_or_else(|| format!("up to {most_tokens} tokens")))
            .range(range, self.most, |start, end| {
                let done = work.embed(start..end, rows);
                self.memory.note_peak();
                done
            })
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

impl<'a> Work<'a> {
    pub(crate) fn longest_first(model: &'a Model, texts: &'a [Tokens]) -> Self {
        Self { model, texts, order: longest_first(texts) }
    }

    pub(crate) fn in_input_order(model: &'a Model, texts: &'a [Tokens]) -> Self {
        Self { model, texts, order: (0..texts.len()).collect() }
    }

    pub(crate) fn buckets(&self) -> Vec<Bucket> {
        buckets(self.texts, &self.order)
    }

    /// Place for the rows of all texts.
    pub(crate) fn rows(&self) -> Vec<f32> {
        vec![0.0; self.texts.len() * self.model.width()]
    }

    /// How many tokens the texts at these places in the order of work have.
    pub(crate) fn tokens(&self, places: &Range<usize>) -> usize {
        self.order[places.clone()].iter().map(|&place| self.texts[place].len()).sum()
    }

    /// Embeds the texts at these places in the order of work, and writes their rows. What fails has
    /// written nothing.
    fn embed(&self, places: Range<usize>, rows: &mut [f32]) -> std::result::Result<(), TchError> {
        let places = &self.order[places];
        let batch: Vec<&Tokens> = places.iter().map(|&place| &self.texts[place]).collect();
        let vectors = self.model.embed(&batch)?;
        let mut values = vec![0.0; vectors.numel()];
        vectors.f_copy_data(&mut values, vectors.numel())?;
        scatter(places, &values, rows, self.model.width());
        Ok(())
    }

    /// Embeds the first text, for what happens only once.
    pub(crate) fn warm_up(&self) -> Result<()> {
        self.embed_places_fixed(0..1, 1, &mut self.rows())
    }

    /// All texts in batches that are all of one size.
    pub(crate) fn embed_fixed(&self, batch: usize) -> Result<Vec<f32>> {
        let mut rows = self.rows();
        self.embed_places_fixed(0..self.order.len(), batch, &mut rows)?;
        Ok(rows)
    }

    /// Like [`embed`](Self::embed), in batches that are all of one size, and with no way out.
    pub(crate) fn embed_places_fixed(
        &self,
        places: Range<usize>,
        batch: usize,
        rows: &mut [f32],
    ) -> Result<()> {
        for start in places.clone().step_by(batch) {
            self.embed(start..places.end.min(start + batch), rows)?;
        }
        Ok(())
    }
}

/// The largest difference of two values; NaN, which passes no comparison, when there is one.
pub(crate) fn difference(rows: &[f32], others: &[f32]) -> f32 {
    rows.iter().zip(others).map(|(value, other)| (value - other).abs()).fold(0.0, largest)
}

fn largest(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() { f32::NAN } else { a.max(b) }
}

/// # Errors
/// When it is not.
pub(crate) fn within(what: &str, difference: f32, allowed: f32) -> Result<()> {
    if difference <= allowed {
        return Ok(());
    }
    Err(format!("check: a {what} differs by {difference:e}, allowed is {allowed:e}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_found_wherever_it_is_and_nan_passes_no_check() {
        assert!((difference(&[1.0, 2.0, 3.0], &[1.0, 1.5, 3.25]) - 0.5).abs() < 1e-9);
        assert!(within("value", difference(&[0.0, f32::NAN, 1.0], &[0.0; 3]), VALUE).is_err());
        assert!(within("value", 2e-5, VALUE).is_err());
        assert!(within("value", 1e-6, VALUE).is_ok());
    }
}
