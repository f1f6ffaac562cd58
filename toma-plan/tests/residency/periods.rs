//! Sequences that repeat themselves.

use toma_plan::residency::Periods;

use crate::Draw;
use crate::rounds::rounds;

/// A random word over an alphabet of this many letters, which is no repetition of a shorter word.
fn word(draw: &mut Draw, letters: usize) -> Vec<u64> {
    loop {
        let word: Vec<_> = (0..=draw.below(60)).map(|_| draw.below(letters) as u64).collect();
        let is_whole =
            |part: &usize| word.len() % part == 0 && word.iter().zip(&word[*part..]).all(|(a, b)| a == b);
        if !(1..word.len()).any(|part| is_whole(&part)) {
            return word;
        }
    }
}

#[test]
fn a_found_period_repeats() {
    for seed in 0..2000 {
        let mut draw = Draw(seed);
        let mut periods = Periods::new();
        let mut all = Vec::new();
        for _ in 0..200 {
            all.push(draw.below(2) as u64);
            let Some(period) = periods.push(all[all.len() - 1]) else { continue };
            let (before, last) = all[all.len() - 2 * period..].split_at(period);
            assert_eq!(before, last, "{seed}");
        }
    }
}

/// A twin with the same rules, which looks at all prints each time.
#[derive(Default)]
struct Twin {
    all: Vec<u64>,
    period: usize,
    is_believed: bool,
    unexplained: usize,
}

impl Twin {
    fn matched(&self, period: usize) -> usize {
        let end = self.all.len();
        (period..end).rev().take_while(|at| self.all[*at] == self.all[at - period]).count()
    }

    /// Returns the distance to the previous occurrence of the last sixteen prints.
    fn candidate(&self) -> Option<usize> {
        let begin = self.all.len().checked_sub(16)?;
        let last = &self.all[begin..];
        (1..=begin).find(|back| &self.all[begin - back..][..16] == last)
    }

    fn push(&mut self, print: u64) -> Option<usize> {
        self.all.push(print);
        if self.period > 0 && self.matched(self.period) == 0 {
            (self.period, self.is_believed) = (0, false);
        }
        let is_unsure = self.matched(self.period.max(1)) < self.period;
        match self.candidate() {
            Some(period) if self.period == 0 || (is_unsure && period < self.period) => self.period = period,
            _ => {}
        }
        if self.is_believed {
            self.unexplained = self.unexplained.saturating_sub(1);
            return Some(self.period);
        }
        self.unexplained += 1;
        let matched = self.matched(self.period.max(1));
        let explained = self.period + matched;
        if self.period > 0 && matched >= self.period && 2 * explained >= self.unexplained + 64 {
            self.is_believed = true;
            self.unexplained = self.unexplained.saturating_sub(explained);
        }
        self.is_believed.then_some(self.period)
    }
}

/// Random parts, some of which are repeated a few times.
fn parts(draw: &mut Draw, letters: usize) -> Vec<u64> {
    let mut all = Vec::new();
    for _ in 0..=draw.below(6) {
        let word = word(draw, letters);
        all.extend(word.repeat(1 + draw.below(4)));
    }
    all
}

#[test]
fn periods_are_those_of_a_slow_twin() {
    let (mut found, seeds) = (0, rounds(60, 300));
    for seed in 0..seeds {
        let mut draw = Draw(seed);
        let (mut periods, mut twin) = (Periods::new(), Twin::default());
        for _ in 0..4 {
            let (step, times) = (parts(&mut draw, 5), 1 + draw.below(4));
            for print in step.repeat(times) {
                let expected = twin.push(print);
                assert_eq!(
                    (periods.push(print), periods.unexplained()),
                    (expected, twin.unexplained),
                    "{seed}"
                );
                found += u64::from(expected.is_some());
            }
        }
    }
    assert!(found > 30 * seeds, "{found}");
}

#[test]
fn loops_within_a_step_are_none() {
    for seed in 0..1000 {
        let mut draw = Draw(seed);
        let mut step: Vec<u64> = Vec::new();
        for part in 0..4 {
            // Between the loops are words that do not repeat and are longer.
            let word: Vec<_> = word(&mut draw, 5).iter().map(|letter| 1000 * part + letter).collect();
            let looped = word.repeat(1 + draw.below(4));
            let between = 1000 * part + 10;
            step.extend(between..between + looped.len() as u64 + 64);
            step.extend(looped);
        }
        let mut periods = Periods::new();
        let repeated = step.iter().cycle().take(4 * step.len());
        let found: Vec<_> = repeated.map(|print| periods.push(*print)).collect();
        assert!(found.iter().flatten().all(|period| *period == step.len()), "{seed}");
        assert!(found[3 * step.len()..].iter().all(Option::is_some), "{seed}");
    }
}

#[test]
fn the_period_of_a_step_is_found_after_two_of_it_and_as_many_prints_as_came_before() {
    for seed in 0..2000 {
        let mut draw = Draw(seed);
        let word = word(&mut draw, 2 + usize::try_from(seed % 5).unwrap());
        let mut periods = Periods::new();
        let before = draw.below(100);
        for _ in 0..before {
            periods.push(draw.below(5) as u64);
        }
        let enough = (before + 64).max(2 * word.len()) + word.len() + 16;
        let repeated: Vec<_> =
            word.iter().cycle().take(enough + word.len()).map(|print| periods.push(*print)).collect();
        assert_eq!(&repeated[enough..], vec![Some(word.len()); word.len()], "{seed} {word:?}");
    }
}
