//! Detection of steps in a sequence of operators.
//!
//! # Why
//!
//! Blocks and optimizers repeat operators within a step. So a period is accepted only if it explains half of the
//! operators that no other period has explained.

use std::collections::{HashMap, VecDeque};

/// Finds the period of a sequence that repeats itself, as one print after the other comes in.
///
/// A print identifies an operation, such as the hash of an operator's name and sizes. Each takes constant time on
/// average. The last 131,072 are remembered (1 MiB), so no period of more than 65,536 is found.
///
/// A period is accepted once it explains half of all prints that no earlier period has explained, and 64 more. So a
/// loop within a step is taken for a step only if nothing longer has come. An explained print cancels an unexplained
/// one.
///
/// ```
/// use toma_plan::residency::Periods;
///
/// let mut periods = Periods::new();
/// // In each step of 100 prints, ten are repeated four times.
/// let step = (0..100).map(|at| if at < 40 { at % 10 } else { at });
/// let found: Vec<_> = step.cycle().take(300).map(|print| periods.push(print)).collect();
/// let (unknown, known) = found.split_at(199);
/// assert_eq!((unknown, known), (vec![None; 199].as_slice(), vec![Some(100); 101].as_slice()));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Periods {
    prints: VecDeque<u64>,
    /// Number of prints so far.
    count: u64,
    /// Last position of each run of a few prints, by their hash.
    seen: HashMap<u64, u64>,
    /// The distance at which the last prints repeat earlier ones, and their number.
    period: usize,
    matched: usize,
    is_believed: bool,
    unexplained: usize,
}

/// Number of prints that are remembered.
const MOST: usize = 1 << 17;

/// Number of successive prints that are searched together, so that a common one does not mislead.
const FEW: usize = 16;

/// Number of unexplained prints that are assumed before the first one.
const BEFORE: usize = 64;

impl Periods {
    /// Creates a detector that has received no print.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a print. Returns the period if it is accepted and the last prints of that number equal those before them.
    pub fn push(&mut self, print: u64) -> Option<usize> {
        self.remember(print);
        self.goes_on();
        let is_unsure = self.matched < self.period;
        if let Some(period) = self.last_seen()
            && (self.period == 0 || (is_unsure && period < self.period))
        {
            self.period = period;
            self.matched = (0..self.prints.len()).take_while(|back| self.repeats(*back, period)).count();
        }
        self.believes();
        self.is_believed.then_some(self.period)
    }

    /// Returns the number of prints that no period has explained, less those that one has explained since.
    #[must_use]
    pub fn unexplained(&self) -> usize {
        self.unexplained
    }

    fn goes_on(&mut self) {
        if self.period > 0 && self.repeats(0, self.period) {
            self.matched += 1;
        } else {
            (self.period, self.matched, self.is_believed) = (0, 0, false);
        }
        self.unexplained =
            if self.is_believed { self.unexplained.saturating_sub(1) } else { self.unexplained + 1 };
    }

    fn believes(&mut self) {
        let explained = self.period + self.matched;
        if !self.is_believed
            && self.period > 0
            && self.matched >= self.period
            && 2 * explained >= self.unexplained + BEFORE
        {
            self.is_believed = true;
            self.unexplained = self.unexplained.saturating_sub(explained);
        }
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

    /// Returns the distance to the last position of the last few prints, and records their new position.
    fn last_seen(&mut self) -> Option<usize> {
        let last = self.prints.iter().rev().take(FEW);
        let hash =
            last.fold(0_u64, |hash, print| (hash.rotate_left(5) ^ print).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let before = self.seen.insert(hash, self.count)?;
        usize::try_from(self.count - before).ok()
    }

    /// True if the print `back` positions from the end equals the one a period before it.
    fn repeats(&self, back: usize, period: usize) -> bool {
        let Some(at) = self.prints.len().checked_sub(back + 1) else { return false };
        at.checked_sub(period).is_some_and(|before| self.prints[before] == self.prints[at])
    }
}
