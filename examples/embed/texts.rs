//! Texts: their tokens, and the order in which they are embedded.

use std::cmp::Reverse;
use std::ops::Range;
use std::path::Path;

use tokenizers::{Tokenizer, TruncationParams};

use crate::Result;

/// The tokens of one text: at least the two marks around it, at most [`MOST`].
pub(crate) type Tokens = Vec<i64>;

/// Real lines of text: pages of this project's guide.
pub(crate) const LINES: &str = concat!(
    include_str!("../../docs/checkpoint.md"),
    include_str!("../../docs/devices.md"),
    include_str!("../../docs/offload.md"),
    include_str!("../../docs/options.md"),
    include_str!("../../docs/retry.md"),
);

/// Tokens of a text that the model was trained for; what comes after them is not seen.
const MOST: usize = 256;

/// Texts at a time: what the tokenizer notes down beside the numbers is many times larger.
const AT_ONCE: usize = 1024;

/// Shorter texts are not told apart: their batches are as large as any.
const SHORTEST: usize = 8;

pub(crate) struct Words {
    tokenizer: Tokenizer,
}

/// Texts, longest first.
pub(crate) struct Work<'a> {
    pub(crate) texts: &'a [Tokens],
    /// Places in `texts`. The longest come first, so that the first batch of a bucket is the largest: a
    /// size that worked for it works for the others.
    pub(crate) order: Vec<usize>,
}

/// Neighbors in the order of work whose batches take about the same memory per text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// No text has more, and each more than half of it.
    pub(crate) most_tokens: usize,
    /// Places in the order of work.
    pub(crate) range: Range<usize>,
}

impl Words {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let say = |error| format!("{}: {error}", path.display());
        let mut tokenizer = Tokenizer::from_file(path).map_err(say)?;
        let truncation = TruncationParams { max_length: MOST, ..TruncationParams::default() };
        // The file asks for 128 tokens, always; batches are padded when it is known what shares one.
        tokenizer.with_truncation(Some(truncation)).map_err(say)?.with_padding(None);
        Ok(Self { tokenizer })
    }

    pub(crate) fn tokens<S: AsRef<str>>(&self, texts: &[S]) -> Result<Vec<Tokens>> {
        let mut tokens = Vec::with_capacity(texts.len());
        for texts in texts.chunks(AT_ONCE) {
            let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
            let encodings =
                self.tokenizer.encode_batch_fast(texts, true).map_err(|error| error.to_string())?;
            let ids = encodings.iter().map(|encoding| encoding.get_ids().iter().copied().map(i64::from));
            tokens.extend(ids.map(Tokens::from_iter));
        }
        Ok(tokens)
    }
}

impl<'a> Work<'a> {
    pub(crate) fn longest_first(texts: &'a [Tokens]) -> Self {
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|&place| Reverse(texts[place].len()));
        Self { texts, order }
    }

    /// Cuts the order where the length falls to half, and into pieces of at least so many texts: fewer are no
    /// measure of large batches.
    pub(crate) fn buckets(&self, texts: usize) -> Vec<Bucket> {
        let limit = |place: usize| self.texts[place].len().next_power_of_two().max(SHORTEST);
        let (mut buckets, mut end) = (Vec::new(), 0);
        for run in self.order.chunk_by(|&a, &b| limit(a) == limit(b)) {
            let (most_tokens, count) = (limit(run[0]), (run.len() / texts).max(1));
            let stop = end + run.len();
            buckets.extend((1..=count).map(|number| {
                let start = end;
                end = if number == count { stop } else { start + texts };
                Bucket { most_tokens, range: start..end }
            }));
        }
        buckets
    }

    /// Puts the rows of a batch where their texts stand in the input.
    pub(crate) fn scatter(&self, places: Range<usize>, values: &[f32], rows: &mut [f32]) {
        let width = rows.len() / self.texts.len();
        for (&place, row) in self.order[places].iter().zip(values.chunks_exact(width)) {
            rows[place * width..][..width].copy_from_slice(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lengths: &[usize]) -> Vec<Tokens> {
        lengths.iter().map(|&length| vec![1; length]).collect()
    }

    #[test]
    fn buckets_end_where_the_length_falls_to_a_power_of_two_and_equal_lengths_keep_their_order() {
        let texts = texts(&[9, 256, 129, 8, 128, 65, 16, 2, 9]);
        let work = Work::longest_first(&texts);
        assert_eq!(work.order, [1, 2, 4, 5, 6, 0, 8, 3, 7]);
        let found =
            |most| work.buckets(most).into_iter().map(|b| (b.most_tokens, b.range)).collect::<Vec<_>>();
        assert_eq!(found(usize::MAX), [(256, 0..2), (128, 2..4), (16, 4..7), (8, 7..9)]);
        assert_eq!(found(1)[4..], [(16, 4..5), (16, 5..6), (16, 6..7), (8, 7..8), (8, 8..9)]);
        assert_eq!(found(2), [(256, 0..2), (128, 2..4), (16, 4..7), (8, 7..9)]);
        assert_eq!(Work::longest_first(&[]).buckets(1), []);
    }

    /// Whatever the lengths and batches, each row ends where its text stood.
    #[test]
    fn rows_come_back_in_input_order() {
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(seed);
            let lengths: Vec<_> = (0..random.usize(0..80)).map(|_| random.usize(1..300)).collect();
            let (batch, most) = (random.usize(1..20), random.usize(1..40));
            let texts = texts(&lengths);
            let work = Work::longest_first(&texts);
            let mut rows = vec![f32::NAN; texts.len() * 2];
            let mut done = 0;
            for Bucket { most_tokens, range } in work.buckets(most) {
                assert!(range.start == done && range.len() < 2 * most, "seed {seed}");
                done = range.end;
                for start in range.clone().step_by(batch) {
                    let places = start..range.end.min(start + batch);
                    let mut of_piece = work.order[places.clone()].iter();
                    assert!(of_piece.all(|&at| texts[at].len() <= most_tokens), "seed {seed}");
                    let values: Vec<f32> = work.order[places.clone()]
                        .iter()
                        .flat_map(|&at| [u16::try_from(at).unwrap(), u16::try_from(texts[at].len()).unwrap()])
                        .map(f32::from)
                        .collect();
                    work.scatter(places, &values, &mut rows);
                }
            }
            assert_eq!(done, texts.len(), "seed {seed}");
            for (at, row) in rows.chunks_exact(2).enumerate() {
                let expected = [at, texts[at].len()].map(|n| f32::from(u16::try_from(n).unwrap()));
                assert_eq!(row, expected, "seed {seed}");
            }
        }
    }
}
