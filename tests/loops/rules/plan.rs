//! Choices of sizes: as plain functions for the twin, and as policies of the library.

use toma::policy::{Evidence, Policy};
use toma::{Bisect, Decay, Halve};

use crate::rules::twin::Bounds;

/// A way to choose sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plan {
    Halve,
    Decay(f64),
    Bisect(f64),
    /// Returns any smaller size when it shrinks, and any step before the next piece.
    Wild(u64),
    /// Like `Wild`, but sometimes does not shrink.
    Stuck(u64),
}

/// Arguments of a plan: the size of the attempt, the current step, and the number of items left.
type Asked = [usize; 3];

impl Plan {
    /// Returns the next size of the twin after a failure.
    pub(crate) fn shrink(self, bounds: Bounds, asked: Asked) -> usize {
        let [size, ..] = asked;
        match self {
            Self::Halve => size / 2,
            Self::Decay(factor) => ((size as f64 * factor).floor() as usize).min(size - 1),
            Self::Bisect(_) => bounds.works.unwrap_or(size / 2),
            Self::Wild(seed) => wild_shrink(seed, asked),
            Self::Stuck(seed) => stuck_shrink(seed, asked),
        }
    }

    /// Returns the step of the twin before a piece.
    pub(crate) fn advance(self, bounds: Bounds, asked: Asked) -> usize {
        let [_, step, _] = asked;
        match (self, bounds.works, bounds.fails) {
            (Self::Bisect(tolerance), Some(works), Some(fails)) => {
                let gap = fails - works;
                if gap as f64 > tolerance * works as f64 { works + gap / 2 } else { works }
            }
            (Self::Wild(seed) | Self::Stuck(seed), ..) => wild_advance(seed, asked),
            _ => step,
        }
    }

    /// Returns the policy of the library for this plan.
    pub(crate) fn policy(self) -> Box<dyn Policy> {
        match self {
            Self::Halve => Box::new(Halve),
            Self::Decay(factor) => Box::new(Decay::new(factor)),
            Self::Bisect(tolerance) => Box::new(Bisect::within(tolerance)),
            Self::Wild(seed) => Box::new(Wild(seed)),
            Self::Stuck(seed) => Box::new(Stuck(seed)),
        }
    }
}

#[derive(Debug)]
struct Wild(u64);

#[derive(Debug)]
struct Stuck(u64);

impl Policy for Wild {
    fn shrink(&self, evidence: &Evidence) -> usize {
        wild_shrink(self.0, asked(evidence))
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        wild_advance(self.0, asked(evidence))
    }
}

impl Policy for Stuck {
    fn shrink(&self, evidence: &Evidence) -> usize {
        stuck_shrink(self.0, asked(evidence))
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        wild_advance(self.0, asked(evidence))
    }
}

fn asked(evidence: &Evidence) -> Asked {
    [evidence.size, evidence.step, evidence.remaining]
}

fn wild_shrink(seed: u64, asked: Asked) -> usize {
    mix(seed, asked) as usize % asked[0]
}

/// Returns a size that is not smaller in one of four cases.
fn stuck_shrink(seed: u64, asked: Asked) -> usize {
    let random = mix(seed, asked);
    if random.is_multiple_of(4) {
        asked[0].saturating_add((random >> 8) as usize % 5)
    } else {
        wild_shrink(seed, asked)
    }
}

/// Returns the current step often, another step sometimes, and nonsense sometimes.
fn wild_advance(seed: u64, asked: Asked) -> usize {
    let random = mix(!seed, asked);
    match random % 8 {
        0 => 0,
        1 => usize::MAX,
        2..=4 => (random >> 8) as usize % 100,
        _ => asked[1],
    }
}

/// Returns a random number that depends only on the arguments.
pub(crate) fn mix(seed: u64, words: [usize; 3]) -> u64 {
    words.iter().fold(seed, |state, &word| {
        let mixed = (state ^ word as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}
