//! The same work with one fixed batch size, to see what adapting is worth.
//!
//! Both sort by length and embed the same texts under the same budget. The fixed size is found as
//! people find it, by halving until it runs, with a batch of nothing but the longest text: smaller
//! than short texts would allow, but any larger one fails where long texts meet. Looking for it is
//! not counted as time of the fixed run.

use std::time::{Duration, Instant};

use toma::{NoCache, execute, observe::report};

use crate::embedder::{Embedder, VALUE, Work, difference, within};
use crate::say::say;
use crate::summary::Summary;
use crate::tokens::Tokens;
use crate::{Result, first_line};

#[derive(Default)]
pub(crate) struct Fixed {
    batch: usize,
    /// Tokens of the longest text so far, for which the batch is safe.
    longest: usize,
    failed_while_looking: usize,
    time_looking: Duration,
    /// The largest difference of a value from the adaptive run's.
    difference: f32,
    summary: Summary,
}

impl Fixed {
    /// To be called before the first run, which warms up what both need.
    pub(crate) fn look(&mut self, embedder: &Embedder<'_>, texts: &[Tokens]) -> Result<()> {
        let Some(longest) = texts.iter().max_by_key(|text| text.len()) else { return Ok(()) };
        if longest.len() <= self.longest {
            return Ok(());
        }
        let begin = Instant::now();
        let model = embedder.model;
        let found = execute::with::<NoCache>()
            .device(embedder.memory.device())
            .batch(embedder.most, |batch| model.embed(&vec![longest; batch]).map(|_| batch));
        let tokens = longest.len();
        self.batch = found.map_err(|error| {
            format!("{}: not one text of {tokens} tokens fits: {}", embedder.memory, first_line(&error))
        })?;
        self.longest = tokens;
        self.failed_while_looking += report::last().map_or(0, |report| report.out_of_memory);
        self.time_looking += begin.elapsed();
        Ok(())
    }

    /// Embeds the texts once more, and compares with the rows of the adaptive run.
    pub(crate) fn run(&mut self, embedder: &Embedder<'_>, texts: &[Tokens], adaptive: &[f32]) -> Result<()> {
        let work = Work::longest_first(embedder.model, texts);
        let begin = Instant::now();
        let rows = work.embed_fixed(self.batch)?;
        self.summary.add_texts(texts, begin.elapsed());
        self.difference = self.difference.max(difference(&rows, adaptive));
        within("value", difference(&rows, adaptive), VALUE)
    }

    pub(crate) fn print(&self, adaptive: &Summary) -> Result<()> {
        say(format_args!("adaptive:          {}", adaptive.speed()))?;
        say(format_args!("fixed batch {:>4}:  {}", self.batch, self.summary.speed()))?;
        let (failed, seconds) = (self.failed_while_looking, self.time_looking.as_secs_f64());
        say(format_args!(
            "                   (looking for {} took {seconds:.1} s more and ran out of memory {failed} times)",
            self.batch
        ))?;
        let ratio = self.summary.time.as_secs_f64() / adaptive.time.as_secs_f64().max(1e-9);
        say(format_args!(
            "adaptive batches are {ratio:.2} times as fast; values differ by at most {:.1e}",
            self.difference
        ))
    }
}
