//! The lines nearest to a query, selected while the lines are read.

use std::cmp::Ordering;

/// The best lines so far; one is better with a larger score, and among equals the earlier one.
#[derive(Debug)]
pub(crate) struct Nearest {
    query: Vec<f32>,
    most: usize,
    /// Best first.
    pub(crate) hits: Vec<Hit>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hit {
    /// The cosine of the angle between the line and the query, from -1 to 1.
    pub(crate) score: f32,
    /// Counted from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl Nearest {
    /// Keeps at most `most` lines.
    pub(crate) fn new(query: Vec<f32>, most: usize) -> Self {
        Self { query, most, hits: Vec::new() }
    }

    /// Considers lines, which come after `before` others, with their vectors, which have length 1.
    pub(crate) fn look(&mut self, before: usize, lines: &[String], rows: &[f32]) {
        let rows = rows.chunks_exact(self.query.len());
        for ((text, row), line) in lines.iter().zip(rows).zip(before + 1..) {
            let score = dot(row, &self.query);
            let is_better = |hit: &Hit| hit.score.total_cmp(&score) != Ordering::Less;
            let place = self.hits.partition_point(is_better);
            if place < self.most {
                self.hits.insert(place, Hit { score, line, text: text.clone() });
                self.hits.truncate(self.most);
            }
        }
    }
}

pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slow twin: sorts everything and cuts off the rest.
    fn slowly(scores: &[f32], most: usize) -> Vec<(f32, usize)> {
        let mut all: Vec<_> = scores.iter().copied().zip(1..).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        all.truncate(most);
        all
    }

    #[test]
    fn it_keeps_what_sorting_everything_keeps() {
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(seed);
            let count = random.usize(0..60);
            let scores: Vec<_> = (0..count).map(|_| f32::from(random.i8(-4..4)) / 4.0).collect();
            let (most, window) = (random.usize(1..8), random.usize(1..20));
            let mut nearest = Nearest::new(vec![1.0, 0.0], most);
            for (number, scores) in scores.chunks(window).enumerate() {
                let before = number * window;
                let lines: Vec<_> =
                    (before + 1..=before + scores.len()).map(|n| format!("text {n}")).collect();
                let rows: Vec<f32> = scores.iter().flat_map(|score| [*score, 9.0]).collect();
                nearest.look(before, &lines, &rows);
            }
            let found: Vec<_> = nearest.hits.iter().map(|hit| (hit.score, hit.line)).collect();
            assert_eq!(found, slowly(&scores, most), "seed {seed}");
            for Hit { line, text, .. } in &nearest.hits {
                assert_eq!(text, &format!("text {line}"), "seed {seed}");
            }
        }
    }
}
