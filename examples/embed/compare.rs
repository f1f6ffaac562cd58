//! The same work with one fixed batch size, to see what adapting is worth.
//!
//! Both sort by length and embed the same texts under the same budget. The fixed size is found as
//! people find it, by halving until it runs, with a batch of nothing but the longest text: smaller
//! than short texts would allow, but any larger one fails where long texts meet. Looking for it is
//! not counted as time of the fixed run.
//!
//! Both take turns, portion by portion of the texts, in the order a, b, b, a: what else the machine
//! does meanwhile slows both down alike. Processor time says the same in another way.

use std::time::{Duration, Instant};

use toma::{NoCache, execute, observe::report};

use crate::buckets::Bucket;
use crate::clock::Clock;
use crate::embedder::{Embedder, VALUE, Work, difference, within};
use crate::say::say;
use crate::summary::Summary;
use crate::tokens::Tokens;
use crate::{Result, first_line};

/// Texts of a turn, in largest batches: enough that the turn's end costs neither of the two much.
const BATCHES: usize = 4;

#[derive(Default)]
pub(crate) struct Fixed {
    batch: usize,
    /// Tokens of the longest text so far, for which the batch is safe.
    longest: usize,
    failed_while_looking: usize,
    time_looking: Duration,
    /// The largest difference of a value from the adaptive run's.
    difference: f32,
    portions: usize,
    summary: Summary,
}

impl Fixed {
    /// Embeds the texts both ways; the rows and the summary are the adaptive run's.
    pub(crate) fn embed(
        &mut self,
        embedder: &Embedder<'_>,
        texts: &[Tokens],
        summary: &mut Summary,
    ) -> Result<Vec<f32>> {
        self.look(embedder, texts)?;
        let work = Work::longest_first(embedder.model, texts);
        let (mut rows, mut fixed) = (work.rows(), work.rows());
        let buckets = work.buckets();
        for portion in buckets.iter().flat_map(|bucket| bucket.portions(BATCHES * embedder.most)) {
            self.portions += 1;
            let fixed_first = self.portions.is_multiple_of(2);
            if fixed_first {
                self.run(&work, &portion, &mut fixed)?;
            }
            embedder.embed_bucket(&work, &portion, &mut rows, summary)?;
            if !fixed_first {
                self.run(&work, &portion, &mut fixed)?;
            }
        }
        let difference = difference(&rows, &fixed);
        self.difference = self.difference.max(difference);
        within("value", difference, VALUE)?;
        Ok(rows)
    }

    /// Comes before the first run, so it warms up what both need.
    fn look(&mut self, embedder: &Embedder<'_>, texts: &[Tokens]) -> Result<()> {
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

    fn run(&mut self, work: &Work<'_>, portion: &Bucket, rows: &mut [f32]) -> Result<()> {
        let range = portion.range.clone();
        let clock = Clock::start();
        work.embed_places_fixed(range.clone(), self.batch, rows)?;
        self.summary.add_texts(range.len(), work.tokens(&range), clock.spent());
        Ok(())
    }

    pub(crate) fn print(&self, adaptive: &Summary) -> Result<()> {
        self.lines(adaptive).iter().try_for_each(|line| say(format_args!("{line}")))
    }

    /// What there is to say; nothing where nothing was compared.
    fn lines(&self, adaptive: &Summary) -> Vec<String> {
        if adaptive.lines == 0 {
            return Vec::new();
        }
        let (failed, seconds) = (self.failed_while_looking, self.time_looking.as_secs_f64());
        let ratio =
            |fixed: Duration, adaptive: Duration| fixed.as_secs_f64() / adaptive.as_secs_f64().max(1e-9);
        let (fixed, spent) = (self.summary.spent, adaptive.spent);
        let faster = ratio(fixed.time, spent.time);
        let processor = ratio(fixed.processor, spent.processor);
        vec![
            format!("with toma:         {}", adaptive.speed()),
            format!("fixed batch {:>4}:  {}", self.batch, self.summary.speed()),
            format!(
                "                   (looking for {} took {seconds:.1} s more and ran out of memory {failed} times)",
                self.batch
            ),
            format!(
                "adaptive batches are {faster:.2} times as fast, {processor:.2} times by processor time; values differ by at most {:.1e}",
                self.difference
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::PolicyName;
    use crate::memory::Memory;
    use crate::tests::{alone, parts};

    #[test]
    fn both_ways_embed_every_text_and_give_the_rows_of_one() {
        let _alone = alone();
        let Some((words, model)) = parts() else { return };
        let lines: Vec<String> = (0..50).map(|number| "word ".repeat(number % 20)).collect();
        let texts = words.tokens(&lines).unwrap();
        let memory = Memory::limit(tch::Device::Cpu, None).unwrap();
        let embedder = Embedder::new(&model, &memory, PolicyName::Halve.policy(), 4).quiet();
        let (mut fixed, mut both, mut one) = (Fixed::default(), Summary::default(), Summary::default());
        let rows = fixed.embed(&embedder, &texts, &mut both).unwrap();
        assert!(difference(&rows, &embedder.embed(&texts, &mut one).unwrap()) < VALUE);
        assert!(fixed.portions > 2 && fixed.batch == 4);
        let lines = fixed.lines(&both);
        assert!(lines[3].starts_with("adaptive batches are "), "{lines:?}");
        for summary in [&fixed.summary, &both] {
            assert_eq!((summary.lines, summary.tokens), (one.lines, one.tokens));
        }
    }

    #[test]
    fn nothing_is_said_of_what_was_not_compared() {
        assert_eq!(Fixed::default().lines(&Summary::default()), [""; 0]);
    }
}
