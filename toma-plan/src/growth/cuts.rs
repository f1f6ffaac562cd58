//! The pieces into which items are cut, and the largest size that fits.
//!
//! # Why
//!
//! A size is an upper bound: 10 items in pieces of 9 run as 9 and 1, or as 5 and 5 if pieces are even. Either may need
//! more bytes, and the caller need not know which one will run. So a size fits if both cuts do.
//!
//! The bytes are not monotone in the size, because the rest is not. Among sizes that make the same number of pieces,
//! even pieces are the same, and the rest is a line over the size, so the search solves lines and tries no sizes.

use std::ops::RangeInclusive;

use super::line::{Line, largest};
use super::pieces::{PieceRun, Pieces};

/// The pieces of a step in one place.
#[derive(Clone, Debug)]
pub(super) struct Grown {
    /// The smallest size that was recorded.
    pub(super) smallest: u64,
    /// Pieces of that size and above.
    pub(super) above: Pieces,
    pub(super) below: Pieces,
}

/// Items that are processed piece by piece.
#[derive(Clone, Copy)]
pub(super) struct Work {
    pub(super) items: u64,
    /// Additional pieces as large as the first, after all others.
    pub(super) repeats: u64,
}

/// The line whose value is the size itself.
const SIZE: Line = Line { fixed: 0, per_item: 1 };

impl Grown {
    pub(super) fn at(&self, size: u64) -> &Pieces {
        if size < self.smallest { &self.below } else { &self.above }
    }

    /// Returns the most live bytes while the items are processed in pieces of at most `size`.
    pub(super) fn needs(&self, size: u64, work: Work) -> u64 {
        let size = size.clamp(1, work.items.max(1));
        if size == work.items && work.repeats == 0 {
            return self.at(size).highest(size).bytes_at(size);
        }
        let count = work.items.div_ceil(size).max(1);
        let rest = self.at(work.items - (count - 1) * size);
        let ragged = Pieces::lines(work.ragged(count, self.at(size), rest));
        ragged.chain(self.even(count, work)).map(|line| line.bytes_at(size)).max().unwrap_or(0)
    }

    /// Returns the largest size at which the items need at most `bytes`.
    pub(super) fn largest(&self, bytes: u64, work: Work) -> Option<u64> {
        let mut most = self.largest_of_one(bytes, work.items)?;
        if most == work.items && work.repeats == 0 {
            return Some(most);
        }
        loop {
            let count = work.items.div_ceil(most);
            let least = work.items.div_ceil(count);
            if self.even(count, work).all(|line| line.bytes_at(most) <= bytes) {
                let ragged = self.largest_ragged(bytes, work, count, least..=most);
                if ragged.is_some() {
                    return ragged;
                }
            }
            // A smaller size makes at least one piece more, so this many pieces are full.
            most = self.largest_of_full(bytes, count, least - 1)?;
        }
    }

    /// Returns the largest size up to `most` at which one piece needs at most `bytes`.
    pub(super) fn largest_of_one(&self, bytes: u64, most: u64) -> Option<u64> {
        self.largest_of(Pieces::first, bytes, most)
    }

    /// Returns the largest size up to `most` at which so many full pieces need at most `bytes`.
    fn largest_of_full(&self, bytes: u64, count: u64, most: u64) -> Option<u64> {
        self.largest_of(|pieces| Pieces::lines([PieceRun { pieces, size: SIZE, count }]), bytes, most)
    }

    fn largest_of<'a, L>(&'a self, lines: impl Fn(&'a Pieces) -> L, bytes: u64, most: u64) -> Option<u64>
    where
        L: Iterator<Item = Line>,
    {
        let smaller = || largest(lines(&self.below), bytes, 1..=most.min(self.smallest - 1));
        largest(lines(&self.above), bytes, self.smallest..=most).or_else(smaller)
    }

    /// Returns the largest of `sizes`, all of which cut the items into `count` pieces, at which full pieces and a rest
    /// need at most `bytes`.
    fn largest_ragged(&self, bytes: u64, work: Work, count: u64, sizes: RangeInclusive<u64>) -> Option<u64> {
        let (least, most) = (*sizes.start(), *sizes.end());
        let from = least.max(self.smallest);
        // The rest shrinks as the size grows: up to this size, the rest is at least the smallest recorded size.
        let turn = work.items.checked_sub(self.smallest);
        let turn = turn.map_or(0, |more| more.checked_div(count - 1).unwrap_or(u64::MAX));
        let parts = [
            (&self.above, &self.below, from.max(turn.saturating_add(1))..=most),
            (&self.above, &self.above, from..=most.min(turn)),
            (&self.below, &self.below, least..=most.min(self.smallest - 1)),
        ];
        let mut parts = parts.into_iter().filter(|(.., sizes)| !sizes.is_empty());
        parts.find_map(|(full, rest, sizes)| {
            largest(Pieces::lines(work.ragged(count, full, rest)), bytes, sizes)
        })
    }

    /// Returns the lines of so many even pieces, the larger ones first; none for a single piece, which has no rest.
    fn even(&self, count: u64, work: Work) -> impl Iterator<Item = Line> {
        let (larger, smaller) = (work.items.div_ceil(count), work.items / count);
        let more = work.items % count;
        let run = |size, count| PieceRun {
            pieces: self.at(size),
            size: Line { fixed: size.into(), per_item: 0 },
            count,
        };
        let runs = [run(larger, more), run(smaller, count - more), run(larger, work.repeats)];
        Pieces::lines(runs.into_iter().filter(move |_| count > 1))
    }
}

impl Work {
    /// Returns so many pieces, all full but the last, as lines over their size.
    fn ragged<'a>(self, count: u64, full: &'a Pieces, rest: &'a Pieces) -> [PieceRun<'a>; 3] {
        let before = count - 1;
        let left = Line { fixed: self.items.into(), per_item: -i128::from(before) };
        let run = |pieces, size, count| PieceRun { pieces, size, count };
        [run(full, SIZE, before), run(rest, left, 1), run(full, SIZE, self.repeats)]
    }
}
