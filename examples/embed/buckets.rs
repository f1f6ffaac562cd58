//! The order of work: longest texts first, in buckets of similar length.

use std::cmp::Reverse;
use std::ops::Range;

use crate::tokens::Tokens;

/// Shorter texts are not told apart: their batches are as large as any.
const SHORTEST: usize = 8;

/// Neighbors in the order of work whose batches take about the same memory per text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// No text has more, and each more than half of it.
    pub(crate) most_tokens: usize,
    /// Places in the order of work.
    pub(crate) range: Range<usize>,
}

impl Bucket {
    /// Pieces of this many texts; the last one takes what is too little for a piece of its own, because
    /// few texts are no measure of large batches.
    pub(crate) fn portions(&self, texts: usize) -> impl Iterator<Item = Self> + use<> {
        let Self { most_tokens, range } = self.clone();
        let count = (range.len() / texts).max(1);
        (0..count).map(move |number| {
            let start = range.start + number * texts;
            let end = if number + 1 == count { range.end } else { start + texts };
            Self { most_tokens, range: start..end }
        })
    }
}

/// The texts by length, as places in `texts`.
///
/// The longest come first, so that the first batch of a bucket is the largest: a size that worked
/// for it works for the others.
pub(crate) fn longest_first(texts: &[Tokens]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by_key(|&place| Reverse(texts[place].len()));
    order
}

/// Cuts an order by [`longest_first`] where the length falls to half.
pub(crate) fn buckets(texts: &[Tokens], order: &[usize]) -> Vec<Bucket> {
    let limit = |place: usize| texts[place].len().next_power_of_two().max(SHORTEST);
    let mut start = 0;
    let runs = order.chunk_by(|&a, &b| limit(a) == limit(b));
    runs.map(|run| {
        let range = start..start + run.len();
        start = range.end;
        Bucket { most_tokens: limit(run[0]), range }
    })
    .collect()
}

/// Puts the rows of a batch where their texts stand in the input.
pub(crate) fn scatter(order: &[usize], values: &[f32], rows: &mut [f32], width: usize) {
    for (&place, row) in order.iter().zip(values.chunks_exact(width)) {
        rows[place * width..][..width].copy_from_slice(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(lengths: &[usize]) -> Vec<Tokens> {
        lengths.iter().map(|&length| vec![1; length]).collect()
    }

    #[test]
    fn equal_lengths_keep_their_order() {
        assert_eq!(longest_first(&texts(&[2, 9, 2, 30, 9])), [3, 1, 4, 0, 2]);
    }

    #[test]
    fn buckets_end_where_the_length_falls_to_a_power_of_two() {
        let texts = texts(&[256, 129, 128, 65, 16, 9, 8, 2]);
        let order = longest_first(&texts);
        let found: Vec<_> = buckets(&texts, &order).into_iter().map(|b| (b.most_tokens, b.range)).collect();
        assert_eq!(found, [(256, 0..2), (128, 2..4), (16, 4..6), (8, 6..8)]);
        assert_eq!(buckets(&[], &[]), []);
    }

    proptest! {
        /// Whatever the lengths and batches, each row ends where its text stood.
        #[test]
        fn rows_come_back_in_input_order(
            lengths in prop::collection::vec(1_usize..300, 0..80),
            batch in 1_usize..20,
        ) {
            let texts = texts(&lengths);
            let order = longest_first(&texts);
            let mut rows = vec![f32::NAN; texts.len() * 2];
            let mut done = 0;
            for Bucket { most_tokens, range } in buckets(&texts, &order) {
                prop_assert_eq!(range.start, done);
                done = range.end;
                for places in order[range].chunks(batch) {
                    prop_assert!(places.iter().all(|&place| texts[place].len() <= most_tokens));
                    let values: Vec<f32> = places.iter().flat_map(|&place| value(place)).collect();
                    scatter(places, &values, &mut rows, 2);
                }
            }
            prop_assert_eq!(done, texts.len());
            let right: Vec<f32> = (0..texts.len()).flat_map(value).collect();
            prop_assert_eq!(rows, right);
        }
    }

    #[test]
    fn portions_leave_nothing_out_and_none_is_small() {
        let portions = |range, texts| {
            let portions = Bucket { most_tokens: 16, range }.portions(texts);
            portions.map(|portion| (portion.most_tokens, portion.range)).collect::<Vec<_>>()
        };
        assert_eq!(portions(5..12, 3), [(16, 5..8), (16, 8..12)]);
        assert_eq!(portions(5..11, 3), [(16, 5..8), (16, 8..11)]);
        assert_eq!(portions(5..7, 3), [(16, 5..7)]);
    }

    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn value(place: usize) -> [f32; 2] {
        [place as f32, -1.0]
    }
}
