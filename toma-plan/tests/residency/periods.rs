//! Sequences that repeat themselves.

use toma_plan::residency::Periods;

use crate::Draw;

/// A word of so many letters, of which no part repeated makes the whole.
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
fn what_is_found_repeats() {
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

#[test]
fn the_period_of_a_step_is_found_after_two_of_it_and_a_few_prints() {
    for seed in 0..2000 {
        let mut draw = Draw(seed);
        let word = word(&mut draw, 2 + usize::try_from(seed % 5).unwrap());
        let mut periods = Periods::new();
        for _ in 0..draw.below(100) {
            periods.push(draw.below(5) as u64);
        }
        let repeated: Vec<_> =
            word.iter().cycle().take(5 * word.len() + 16).map(|print| periods.push(*print)).collect();
        let last = &repeated[4 * word.len() + 16..];
        assert_eq!(last, vec![Some(word.len()); word.len()], "{seed} {word:?}");
    }
}

#[test]
fn a_step_that_changes_is_none_until_it_has_come_twice() {
    let mut periods = Periods::new();
    let mut push = |step: &[u64]| step.iter().map(|print| periods.push(*print)).last().flatten();
    let (train, test) = ((0..100).collect::<Vec<_>>(), (200..250).collect::<Vec<_>>());
    assert_eq!([push(&train), push(&train), push(&train)], [None, Some(100), Some(100)]);
    assert_eq!([push(&test), push(&train), push(&test), push(&train)], [None, None, Some(150), Some(150)]);
    assert_eq!([push(&train), push(&train)], [Some(100), Some(100)]);
}
