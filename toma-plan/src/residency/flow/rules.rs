//! Evictions on demand, replayed on gaps: as simulated, but fast.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::super::evictions::Price;
use super::gaps::Gaps;

/// What decides what leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Lru,
    NextEvent,
}

/// What a rule does in the last of some rounds.
#[derive(Clone, Debug)]
pub(super) struct Replayed {
    /// The gaps in which storages left the last time that they came to their ends, or are away.
    pub(super) chosen: Vec<bool>,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

/// `None` where an operator does not fit.
pub(super) fn replay(gaps: &Gaps, budget_bytes: u64, rule: Rule, rounds: usize) -> Option<Replayed> {
    if gaps.needed.iter().any(|needed| *needed > budget_bytes) {
        return None;
    }
    let mut replay = Replay::new(gaps, budget_bytes, rule);
    for round in 0..rounds {
        replay.round(round);
    }
    Some(replay.replayed)
}

/// The bytes that [`NextEvent`](super::super::NextEvent) moves in some rounds, after as many in which it settles.
pub(super) fn bytes_on_demand(gaps: &Gaps, budget_bytes: u64, rounds: usize) -> u64 {
    let mut replay = Replay::new(gaps, budget_bytes, Rule::NextEvent);
    let bytes = (0..2 * rounds).map(|round| {
        replay.round(round);
        if round < rounds { 0 } else { replay.replayed.bytes_in + replay.replayed.bytes_out }
    });
    bytes.sum()
}

/// A gap that has begun and in which the storage is still there: ordered by what leaves last.
type Open = (u64, Reverse<usize>, usize);

struct Replay<'a> {
    gaps: &'a Gaps,
    budget_bytes: u64,
    rule: Rule,
    /// By the operator beside which they begin, and by that which ends them.
    begins: Vec<Vec<usize>>,
    ends: Vec<Vec<usize>>,
    /// Those of gaps that are open, by how much moves if the storage leaves: nothing, its bytes, or twice.
    open: [BTreeSet<Open>; 3],
    entries: Vec<Option<(usize, Open)>>,
    open_bytes: u64,
    is_away: Vec<bool>,
    has_copy: Vec<bool>,
    replayed: Replayed,
}

impl<'a> Replay<'a> {
    fn new(gaps: &'a Gaps, budget_bytes: u64, rule: Rule) -> Self {
        let count = gaps.rows.len();
        let (mut begins, mut ends) = (vec![Vec::new(); gaps.operators], vec![Vec::new(); gaps.operators]);
        for (index, gap) in gaps.rows.iter().enumerate() {
            begins[(gap.after + 1) % gaps.operators].push(index);
            ends[gap.until(gaps.operators)].push(index);
        }
        let mut replay = Self {
            gaps,
            budget_bytes,
            rule,
            begins,
            ends,
            open: Default::default(),
            entries: vec![None; count],
            open_bytes: 0,
            is_away: vec![false; count],
            has_copy: vec![false; gaps.versions.len()],
            replayed: Replayed { chosen: vec![false; count], bytes_in: 0, bytes_out: 0 },
        };
        // What reaches over the end of a step is there at the start of the first.
        for (index, gap) in gaps.rows.iter().enumerate() {
            let wrapped = (gap.after + 1 + gap.length).saturating_sub(gaps.operators);
            if wrapped > 0 && gap.after + 1 < gaps.operators {
                replay.begin(index, wrapped as u64, 0);
            }
        }
        replay
    }

    fn round(&mut self, round: usize) {
        (self.replayed.bytes_in, self.replayed.bytes_out) = (0, 0);
        for operator in 0..self.gaps.operators {
            let now = (round * self.gaps.operators + operator) as u64;
            for index in 0..self.ends[operator].len() {
                self.end(self.ends[operator][index]);
            }
            for at in 0..self.begins[operator].len() {
                let index = self.begins[operator][at];
                let gap = &self.gaps.rows[index];
                self.begin(index, now + gap.length as u64, now);
            }
            let lacking = (self.gaps.needed[operator] + self.open_bytes).saturating_sub(self.budget_bytes);
            self.evict(lacking, now);
        }
    }

    fn begin(&mut self, index: usize, until: u64, now: u64) {
        let gap = &self.gaps.rows[index];
        let is_first =
            index.checked_sub(1).is_none_or(|before| self.gaps.rows[before].version != gap.version);
        if is_first && self.gaps.versions[gap.version] > 0 {
            self.has_copy[gap.version] = false;
        }
        let moves = usize::from(gap.comes_back) + usize::from(!self.has_copy[gap.version]);
        let key = match self.rule {
            Rule::Lru => u64::MAX - now,
            Rule::NextEvent if gap.is_endless => u64::MAX,
            Rule::NextEvent => until,
        };
        let class = if self.rule == Rule::Lru { 0 } else { moves };
        let entry = (key, Reverse(gap.storage), index);
        self.open[class].insert(entry);
        self.entries[index] = Some((class, entry));
        self.open_bytes += gap.bytes;
    }

    fn end(&mut self, index: usize) {
        if let Some((class, entry)) = self.entries[index].take() {
            self.open[class].remove(&entry);
            self.open_bytes -= self.gaps.rows[index].bytes;
            self.replayed.chosen[index] = false;
        }
        if std::mem::take(&mut self.is_away[index]) && self.gaps.rows[index].comes_back {
            self.replayed.bytes_in += self.gaps.rows[index].bytes;
        }
    }

    fn evict(&mut self, lacking_bytes: u64, now: u64) {
        let mut freed = 0;
        let mut leaving = Vec::new();
        while freed < lacking_bytes {
            let Some((class, entry)) = self.first(now) else { break };
            self.open[class].remove(&entry);
            freed += self.gaps.rows[entry.2].bytes;
            leaving.push((class, entry));
        }
        let mut spare = freed.saturating_sub(lacking_bytes);
        for (class, entry) in leaving.into_iter().rev() {
            let bytes = self.gaps.rows[entry.2].bytes;
            if bytes <= spare {
                spare -= bytes;
                self.open[class].insert(entry);
            } else {
                self.leave(entry.2);
            }
        }
    }

    /// What leaves first: the best of the last of each class.
    fn first(&self, now: u64) -> Option<(usize, Open)> {
        let heads = self.open.iter().enumerate().filter_map(|(class, open)| Some((class, *open.last()?)));
        heads.min_by_key(|(class, (until, Reverse(storage), _))| {
            let distance = if *until == u64::MAX { u64::MAX } else { until.saturating_sub(now).max(1) };
            Price { moves: *class as u64, distance, storage: *storage as u64 }
        })
    }

    fn leave(&mut self, index: usize) {
        let gap = &self.gaps.rows[index];
        self.entries[index] = None;
        self.open_bytes -= gap.bytes;
        self.is_away[index] = true;
        self.replayed.chosen[index] = true;
        if !std::mem::replace(&mut self.has_copy[gap.version], true) {
            self.replayed.bytes_out += gap.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Lru, NextEvent, Step, Terms, simulate};
    use super::*;

    const STEPS: [&str; 3] = [
        include_str!("../../../tests/residency/recorded/perceptron.json"),
        include_str!("../../../tests/residency/recorded/resnet20.json"),
        include_str!("../../../tests/residency/recorded/transformer.json"),
    ];

    #[test]
    fn what_is_replayed_is_what_is_simulated() {
        for text in STEPS {
            let step: Step = serde_json::from_str(text).unwrap();
            let gaps = Gaps::new(&step);
            let (least, peak) = (step.least_budget().1, step.peak_bytes());
            for budget in (0..10).map(|part| least + (peak - least) * part / 10) {
                let terms = Terms::bytes_alone(budget);
                let lru = simulate(&step, &terms, &mut Lru, 3).last().unwrap();
                let next_event = simulate(&step, &terms, &mut NextEvent, 3).last().unwrap();
                for (round, rule) in [(lru, Rule::Lru), (next_event, Rule::NextEvent)] {
                    let replayed = replay(&gaps, budget, rule, 3).unwrap();
                    let moved = (replayed.bytes_in, replayed.bytes_out);
                    assert_eq!(moved, (round.bytes_in, round.bytes_out), "{rule:?} {budget}");
                }
            }
            assert!(replay(&gaps, least - 1, Rule::Lru, 3).is_none());
        }
    }
}
