//! The same work with several policies, to see what choosing well is worth.
//!
//! All embed the same texts under the same budget, each with sizes of its own. They take turns, bucket by
//! bucket, and each bucket is begun by another one: what else the machine does meanwhile slows all down
//! alike.

use toma::observe::Report;

use crate::Result;
use crate::arguments::PolicyName;
use crate::embedder::{Embedder, VALUE, Work, difference, within};
use crate::memory::Memory;
use crate::model::Model;
use crate::say::say;
use crate::summary::{Summary, per_second};
use crate::tokens::Tokens;

pub(crate) struct Policies<'a> {
    model: &'a Model,
    runs: Vec<Run<'a>>,
    turns: usize,
    /// The largest difference of a value between two policies.
    difference: f32,
}

struct Run<'a> {
    name: PolicyName,
    embedder: Embedder<'a>,
    summary: Summary,
}

impl<'a> Policies<'a> {
    pub(crate) fn new(model: &'a Model, memory: &'a Memory, names: &[PolicyName], most: usize) -> Self {
        let run = |&name: &PolicyName| {
            let embedder = Embedder::new(model, memory, name.policy(), most).named(name.to_string());
            Run { name, embedder, summary: Summary::default() }
        };
        Self { model, runs: names.iter().map(run).collect(), turns: 0, difference: 0.0 }
    }

    /// Embeds the texts with each policy; the rows are the first one's, and the summary has what all have
    /// in common.
    pub(crate) fn embed(&mut self, texts: &[Tokens], all: &mut Summary) -> Result<Vec<f32>> {
        let work = Work::longest_first(self.model, texts);
        if self.turns == 0 && !texts.is_empty() {
            // Whoever comes first would pay for what libtorch does only once.
            work.warm_up()?;
        }
        let mut rows = vec![work.rows(); self.runs.len()];
        for bucket in work.buckets() {
            for turn in 0..self.runs.len() {
                let which = (self.turns + turn) % self.runs.len();
                let Run { embedder, summary, .. } = &mut self.runs[which];
                embedder.embed_bucket(&work, &bucket, &mut rows[which], summary)?;
            }
            self.turns += 1;
        }
        all.lines += texts.len();
        all.peak_bytes = self.runs.iter().map(|run| run.summary.peak_bytes).fold(all.peak_bytes, u64::max);
        let first = rows.swap_remove(0);
        let differences = rows.iter().map(|others| difference(&first, others));
        self.difference = differences.fold(self.difference, f32::max);
        within("value", self.difference, VALUE)?;
        Ok(first)
    }

    pub(crate) fn print(&self) -> Result<()> {
        say(format_args!(
            "{:<11}{:>8}{:>9}{:>12}  {:>4}  {:<15}batch sizes, long texts to short",
            "policy", "seconds", "lines/s", "processor s", "OOMs", "lost to them"
        ))?;
        for Run { name, summary, .. } in &self.runs {
            let Summary { lines, spent, out_of_memory, .. } = summary;
            say(format_args!(
                "{:<11}{:>8.1}{:>9.0}{:>12.1}  {out_of_memory:>4}  {:<15}{}",
                name.to_string(),
                spent.time.as_secs_f64(),
                per_second(*lines, spent.time),
                spent.processor.as_secs_f64(),
                summary.lost(),
                summary.sizes()
            ))?;
        }
        say(format_args!("values differ by at most {:.1e}", self.difference))
    }

    /// Of all calls of all policies.
    pub(crate) fn reports(&self) -> impl Iterator<Item = &Report> {
        self.runs.iter().flat_map(|run| &run.summary.reports)
    }
}
