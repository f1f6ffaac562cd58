//! Evictions that follow one rule.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::{Candidate, Eviction, Next, Situation};

/// Evicts everything after each operator: the least memory in which a step can run, and the most traffic.
///
/// ```
/// use toma_plan::residency::{Eviction as _, Genoa};
///
/// assert!(Genoa.is_eager()); // evicts after each operator, even if there is room
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Genoa;

impl Eviction for Genoa {
    fn name(&self) -> &'static str {
        "genoa"
    }

    fn evict(&mut self, situation: &Situation<'_>) -> Vec<u64> {
        first(situation, least_recent)
    }

    fn is_eager(&self) -> bool {
        true
    }

    fn leave(&mut self, situation: &Situation<'_>) -> Vec<u64> {
        let mut leaving: Vec<_> = situation.candidates.iter().map(|candidate| candidate.storage).collect();
        leaving.sort_unstable();
        leaving
    }
}

/// Evicts the least recently used storage first. It needs no known step.
///
/// ```
/// use toma_plan::residency::{Candidate, Eviction as _, Lru, Next, Situation};
///
/// let any = Candidate { storage: 0, bytes: 100, last_use: 9, next: Next::Unknown, has_copy: false };
/// let candidates = [any, Candidate { storage: 1, last_use: 4, ..any }];
/// let leaving = Lru.evict(&Situation { now: 10, lacking_bytes: 100, candidates: &candidates });
/// assert_eq!(leaving[0], 1);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lru;

impl Eviction for Lru {
    fn name(&self) -> &'static str {
        "lru"
    }

    fn evict(&mut self, situation: &Situation<'_>) -> Vec<u64> {
        first(situation, least_recent)
    }
}

/// Evicts the storage first that costs least for the time that it is evicted: smallest (w + r) / d.
///
/// w is 1 if it has to be copied out, r is 1 if it is used again, d is the distance to its next use, or to its death.
/// If no next use is known, it acts as [`Lru`].
///
/// ```
/// use toma_plan::residency::{Candidate, Eviction as _, Next, NextEvent, Situation};
///
/// let soon = Candidate { storage: 0, bytes: 100, last_use: 5, next: Next::Use(11), has_copy: false };
/// let candidates = [soon, Candidate { storage: 1, next: Next::Use(40), ..soon }];
/// let leaving = NextEvent.evict(&Situation { now: 10, lacking_bytes: 100, candidates: &candidates });
/// assert_eq!(leaving[0], 1); // used much later
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextEvent;

impl Eviction for NextEvent {
    fn name(&self) -> &'static str {
        "next-event"
    }

    fn evict(&mut self, situation: &Situation<'_>) -> Vec<u64> {
        if situation.candidates.iter().all(|candidate| candidate.next == Next::Unknown) {
            return Lru.evict(situation);
        }
        first(situation, |candidate| Price::of(candidate, situation.now))
    }
}

fn least_recent(candidate: &Candidate) -> (u64, u64) {
    (candidate.last_use, candidate.storage)
}

/// Bytes that an eviction moves for each byte of the storage, and the number of operators for which it frees room.
///
/// Prices are ordered by their ratio; of equals the larger distance is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Price {
    moves: u64,
    distance: u64,
    storage: u64,
}

impl Price {
    fn of(candidate: &Candidate, now: u64) -> Self {
        let (again, distance) = match candidate.next {
            // The next use is assumed to be as far ahead as the last one is back.
            Next::Unknown => (1, now.saturating_sub(candidate.last_use)),
            Next::Use(at) => (1, at.saturating_sub(now)),
            Next::Death(at) => (0, at.saturating_sub(now)),
            Next::Never => (0, u64::MAX),
        };
        let moves = again + u64::from(!candidate.has_copy);
        Self { moves, distance: distance.max(1), storage: candidate.storage }
    }
}

impl Ord for Price {
    fn cmp(&self, other: &Self) -> Ordering {
        let [a, b] = [self, other].map(|price| u128::from(price.moves));
        let ratio = (a * u128::from(other.distance)).cmp(&(b * u128::from(self.distance)));
        ratio.then(other.distance.cmp(&self.distance)).then(self.storage.cmp(&other.storage))
    }
}

impl PartialOrd for Price {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns the candidates with the smallest keys that suffice. Removes those again that need not be evicted, beginning
/// with the last.
fn first<K: Ord>(situation: &Situation<'_>, key: impl Fn(&Candidate) -> K) -> Vec<u64> {
    let keys =
        situation.candidates.iter().enumerate().map(|(index, candidate)| Reverse((key(candidate), index)));
    let mut order: BinaryHeap<_> = keys.collect();
    let mut freed = 0_u64;
    let mut chosen = Vec::new();
    while freed < situation.lacking_bytes
        && let Some(Reverse((_, index))) = order.pop()
    {
        freed = freed.saturating_add(situation.candidates[index].bytes);
        chosen.push(situation.candidates[index]);
    }
    let mut spare = freed.saturating_sub(situation.lacking_bytes);
    for index in (0..chosen.len()).rev() {
        if chosen[index].bytes <= spare {
            spare -= chosen.remove(index).bytes;
        }
    }
    chosen.iter().map(|candidate| candidate.storage).collect()
}
