//! Steps in a sequence of operators.

use std::collections::{HashMap, VecDeque};

/// Finds the period of a sequence that repeats itself, as one print after the other comes in.
///
/// A print stands for what is done, such as the hash of an operator's name and sizes. Each takes constant time in the mean. The
/// last 2^20 are remembered, so no longer period than half of that is found.
///
/// ```
/// # mod toma { pub use toma_plan as plan; }
/// use toma::plan::residency::Periods;
///
/// let mut periods = Periods::new();
/// let found: Vec<_> = [9, 1, 2, 2, 1, 2, 2, 1].into_iter().map(|print| periods.push(print)).collect();
/// // Both twos, then 1 2 2 twice.
/// assert_eq!(found, [None, None, None, Some(1), None, None, Some(3), Some(3)]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Periods {
    prints: VecDeque<u64>,
    /// How many prints came in.
    count: u64,
    /// Where the last few prints were seen last, by their hash.
    seen: HashMap<u64, u64>,
    /// The distance at which the last prints repeat earlier ones, and how many do.
    period: usize,
    matched: usize,
}

/// How many prints are remembered.
const MOST: usize = 1 << 20;

/// How many prints together are looked for, so that a common one does not mislead.
const FEW: usize = 16;

impl Periods {
    /// Nothing has come in.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a print. Returns the period, if the last prints of that number are equal to those before them.
    ///
    /// Of several it is the one that has held longest, which is that of a step rather than of a loop in it.
    pub fn push(&mut self, print: u64) -> Option<usize> {
        self.remember(print);
        if self.period > 0 && self.repeats(0, self.period) {
            self.matched += 1;
        } else {
            (self.period, self.matched) = (0, 0);
        }
        let [one, few] = [1, FEW].map(|few| self.last_seen(few));
        let is_unsure = self.matched < self.period;
        match few.or(one) {
            Some(period) if self.period == 0 || (is_unsure && few.is_some_and(|few| few < self.period)) => {
                self.period = period;
                self.matched = (0..2 * period).take_while(|back| self.repeats(*back, period)).count();
            }
            _ => {}
        }
        (self.period > 0 && self.matched >= self.period).then_some(self.period)
    }

    fn remember(&mut self, print: u64) {
        if self.prints.len() == MOST {
            self.prints.pop_front();
        }
        if self.seen.len() > 4 * MOST {
            let first = self.count - MOST as u64;
            self.seen.retain(|_, at| *at >= first);
        }
        self.prints.push_back(print);
        self.count += 1;
    }

    /// The distance to where the last few prints came together before, and notes that they do now.
    fn last_seen(&mut self, few: usize) -> Option<usize> {
        let last = self.prints.iter().rev().take(few);
        let hash = last.fold(few as u64, |hash, print| {
            (hash.rotate_left(5) ^ print).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        let before = self.seen.insert(hash, self.count)?;
        usize::try_from(self.count - before).ok()
    }

    /// Whether the print so far from the end is that a period before it.
    fn repeats(&self, back: usize, period: usize) -> bool {
        let Some(at) = self.prints.len().checked_sub(back + 1) else { return false };
        at.checked_sub(period).is_some_and(|before| self.prints[before] == self.prints[at])
    }
}
