//! The same work in one way or several, to measure the benefit of well-chosen batch sizes.
//!
//! All ways embed the same texts under the same budget, each with sizes of its own. They take turns, portion by portion
//! of the texts, and each portion begins with another way, so that other load on the machine slows all of them equally.
//!
//! A fixed batch size is found as people find it, by halving until it runs, with a batch of copies of the longest text.
//! It is smaller than short texts would allow, but any larger size fails where long texts meet. The search does not
//! count as its time.

use toma::report::Report;
use toma::{NoCache, execute};

use crate::arguments::{Arguments, PolicyName};
use crate::embedder::{Embedder, VALUE, compare};
use crate::memory::Memory;
use crate::model::Model;
use crate::summary::Summary;
use crate::texts::Tokens;
use crate::{Result, first_line, print};

/// Texts of a turn: enough that the cost of ending a turn is small.
const TURN: usize = 256;

/// Texts of the largest fixed batch.
const LARGEST: usize = 64;

/// The ways that take turns; often only one.
pub(crate) struct Ways<'a> {
    all: Vec<Way<'a>>,
    /// Texts of a turn.
    turn: usize,
    turns: usize,
    /// The largest difference of a value between two ways.
    difference: f32,
}

struct Way<'a> {
    embedder: Embedder<'a>,
    /// In a way with a fixed size: tokens of the longest text so far, for which the size is safe.
    fixed_for: Option<usize>,
}

impl<'a> Ways<'a> {
    pub(crate) fn new(arguments: &Arguments, model: &'a Model, memory: &'a Memory) -> Self {
        let most = arguments.batch();
        let way = |name: PolicyName, fixed_for| {
            let mut embedder = Embedder::new(model, memory, name.policy(), most);
            let is_one = arguments.compare_policies.is_empty();
            embedder.name = if is_one { "adaptive".to_owned() } else { name.to_string() };
            Way { embedder, fixed_for }
        };
        let mut all: Vec<_> = arguments.compare_policies.iter().map(|&name| way(name, None)).collect();
        if all.is_empty() {
            all.push(way(arguments.policy, None));
        }
        all.extend(arguments.compare.then(|| way(PolicyName::Halve, Some(0))));
        Self { all, turn: TURN, turns: 0, difference: 0.0 }
    }

    /// Embeds the texts in each way, and returns the rows of the first one.
    pub(crate) fn embed(&mut self, texts: &[Tokens]) -> Result<Vec<f32>> {
        let count = self.all.len();
        if count == 1 {
            return self.all[0].embedder.embed(texts);
        }
        let Some(longest) = texts.iter().max_by_key(|tokens| tokens.len()) else { return Ok(Vec::new()) };
        self.all.iter_mut().try_for_each(|way| way.prepare(longest))?;
        let mut rows = vec![Vec::new(); count];
        for portion in texts.chunks(self.turn) {
            for turn in self.turns..self.turns + count {
                let which = turn % count;
                rows[which].extend(self.all[which].embedder.embed(portion)?);
            }
            self.turns += 1;
        }
        let first = rows.swap_remove(0);
        for others in &rows {
            self.difference = compare("value", &first, others, VALUE)?.max(self.difference);
        }
        Ok(first)
    }

    /// Prints the comparison, and the results of the first way.
    pub(crate) fn print(&self) -> Result<()> {
        if self.all.len() > 1 {
            self.table().iter().try_for_each(print)?;
        }
        eprint!("{}", self.summary());
        Ok(())
    }

    fn table(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "{:<13}{:>8}{:>9}  {:>4}  {:<15}batch sizes, long texts to short",
            "", "seconds", "lines/s", "OOMs", "lost to them"
        )];
        lines.extend(self.all.iter().map(Way::line));
        if let [first, .., last] = &*self.all
            && last.fixed_for.is_some_and(|tokens| tokens > 0)
        {
            let faster = last.embedder.summary.seconds() / first.embedder.summary.seconds().max(1e-9);
            lines.push(format!("adaptive batches are {faster:.2} times as fast as a fixed size"));
        }
        lines.push(format!("values differ by at most {:.1e}", self.difference));
        lines
    }

    /// Summary of the first way.
    pub(crate) fn summary(&self) -> &Summary {
        &self.all[0].embedder.summary
    }

    /// Reports of all calls with a policy to show.
    pub(crate) fn reports(&self) -> impl Iterator<Item = &Report> {
        let adapting = self.all.iter().filter(|way| way.fixed_for.is_none());
        adapting.flat_map(|way| way.embedder.summary.reports())
    }
}

impl Way<'_> {
    /// Finds a fixed size that is safe for the longest text.
    fn prepare(&mut self, longest: &Tokens) -> Result<()> {
        let (embedder, tokens) = (&mut self.embedder, longest.len());
        if self.fixed_for.is_none_or(|known| tokens <= known) {
            return Ok(());
        }
        let found = execute::with::<NoCache>()
            .device(embedder.memory.device())
            .batch(LARGEST, |batch| embedder.model.embed(&vec![longest; batch]).map(|_| batch));
        let memory = embedder.memory;
        embedder.most = found.map_err(|error| {
            format!("{memory}: not one text of {tokens} tokens fits: {}", first_line(&error))
        })?;
        embedder.cost = |rows, _| rows;
        embedder.name = format!("fixed {}", embedder.most);
        self.fixed_for = Some(tokens);
        Ok(())
    }

    fn line(&self) -> String {
        let Embedder { name, summary, .. } = &self.embedder;
        format!(
            "{:<13}{:>8.1}{:>9.0}  {:>4}  {:<15}{}",
            name,
            summary.seconds(),
            summary.lines_per_second(),
            summary.out_of_memory(),
            summary.lost(),
            summary.sizes()
        )
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::job::Parts;
    use crate::tests::{alone, parts};

    #[test]
    fn each_way_embeds_every_text_and_gives_the_rows_of_one() {
        let _alone = alone();
        let Some(Parts { words, model, .. }) = parts() else { return };
        let lines: Vec<String> = (0..50).map(|number| "word ".repeat(number % 20)).collect();
        let texts = words.tokens(&lines).unwrap();
        let memory = Memory::limit(tch::Device::Cpu, None).unwrap();
        let ways = |more: &str| {
            let line = format!("embed --input - --batch 64 {more}");
            Ways::new(&Arguments::parse_from(line.split_whitespace()), &model, &memory)
        };
        let one = ways("--query x").embed(&texts).unwrap();
        let mut idle = ways("--compare");
        assert!(idle.embed(&[]).unwrap().is_empty());
        assert!(!idle.table().concat().contains("times as fast"), "nothing was compared");
        for (more, name) in [("--compare", "fixed 64"), ("--compare-policies=halve,bisect", "bisect")] {
            let mut both = ways(more);
            both.turn = 20;
            compare("value", &both.embed(&texts).unwrap(), &one, VALUE).unwrap();
            assert!(both.turns > 2);
            for Way { embedder, .. } in &both.all {
                assert_eq!((embedder.summary.lines(), embedder.summary.out_of_memory()), (50, 0));
            }
            let table = both.table();
            assert!(table[2].starts_with(name), "{table:?}");
            assert_eq!(
                table.iter().any(|line| line.starts_with("adaptive batches are ")),
                more == "--compare"
            );
        }
    }
}
