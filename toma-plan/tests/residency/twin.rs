//! A second simulator, slow and plain: the location of each storage by its number, and each rule as it is written.

use std::collections::{BTreeMap, BTreeSet};

use toma_plan::residency::{
    Candidate, Eviction, Genoa, Lru, Move, MoveKind, Next, NextEvent, Round, Situation, Step, Terms, simulate,
};

use crate::{Draw, float, steps};

#[derive(Debug, Default)]
struct Twin {
    /// Storages on the device, and the last operator that touched each.
    inside: BTreeMap<usize, u64>,
    outside: BTreeSet<usize>,
    copies: BTreeSet<usize>,
    moves: Vec<(u64, bool, u64, MoveKind)>,
    bytes: Vec<[u64; 2]>,
    peak: u64,
    failed: Option<(u64, u64)>,
}

impl Twin {
    fn gone(&mut self, storage: usize) {
        self.inside.remove(&storage);
        self.outside.remove(&storage);
        self.copies.remove(&storage);
    }

    fn resident(&self, step: &Step) -> u64 {
        self.inside.keys().map(|storage| step.storages[*storage].bytes).sum()
    }

    fn out(&mut self, step: &Step, storage: usize, at: (u64, bool)) {
        self.inside.remove(&storage).unwrap();
        self.outside.insert(storage);
        let is_new = self.copies.insert(storage);
        let kind = if is_new { MoveKind::CopiedOut } else { MoveKind::Left };
        if is_new {
            self.bytes.last_mut().unwrap()[1] += step.storages[storage].bytes;
        }
        self.moves.push((at.0, at.1, storage as u64, kind));
    }

    fn candidates(&self, step: &Step, now: u64, operator: Option<usize>) -> Vec<Candidate> {
        let is_used = |storage: usize| {
            operator.is_some_and(|at| step.operators[at].uses.iter().any(|used| used.storage == storage))
        };
        let may =
            self.inside.iter().filter(|(storage, _)| !step.storages[**storage].stays && !is_used(**storage));
        may.map(|(&storage, &last_use)| Candidate {
            storage: storage as u64,
            bytes: step.storages[storage].bytes,
            last_use,
            next: next(step, storage, now),
            has_copy: self.copies.contains(&storage),
        })
        .collect()
    }

    fn operator(&mut self, step: &Step, budget: u64, now: u64, eviction: &mut dyn Eviction) -> bool {
        let at = usize::try_from(now).unwrap() % step.operators.len();
        let operator = &step.operators[at];
        let missing: Vec<_> = operator
            .uses
            .iter()
            .map(|used| used.storage)
            .filter(|used| self.outside.contains(used))
            .collect();
        let more =
            missing.iter().map(|storage| step.storages[*storage].bytes).sum::<u64>() + operator.inside_bytes;
        let lacking_bytes = (self.resident(step) + more).saturating_sub(budget);
        if lacking_bytes > 0 {
            let candidates = self.candidates(step, now, Some(at));
            let mut order = eviction.evict(&Situation { now, lacking_bytes, candidates: &candidates });
            let mut rest: Vec<_> = candidates.iter().map(|c| (c.last_use, c.storage)).collect();
            rest.sort_unstable();
            order.extend(rest.into_iter().map(|(_, storage)| storage));
            for storage in order {
                let may = candidates.iter().any(|candidate| candidate.storage == storage);
                let index = usize::try_from(storage).unwrap_or(usize::MAX);
                if self.resident(step) + more > budget && may && self.inside.contains_key(&index) {
                    self.out(step, index, (now, false));
                }
            }
        }
        let needed = self.resident(step) + more;
        if needed > budget {
            self.failed = Some((now, needed));
            return false;
        }
        self.peak = self.peak.max(needed);
        for storage in missing {
            self.outside.remove(&storage);
            self.inside.insert(storage, now);
            self.bytes.last_mut().unwrap()[0] += step.storages[storage].bytes;
            self.moves.push((now, false, storage as u64, MoveKind::Fetched));
        }
        for used in &operator.uses {
            self.inside.insert(used.storage, now);
            if used.writes {
                self.copies.remove(&used.storage);
            }
        }
        let made = step.storages.iter().enumerate().filter(|(_, storage)| storage.birth == Some(at));
        self.inside.extend(made.map(|(storage, _)| (storage, now)));
        let candidates = self.candidates(step, now, None);
        for storage in eviction.leave(&Situation { now, lacking_bytes: 0, candidates: &candidates }) {
            self.out(step, usize::try_from(storage).unwrap(), (now, true));
        }
        true
    }
}

/// Walks from operator to operator until something happens to the storage.
fn next(step: &Step, storage: usize, now: u64) -> Next {
    let count = step.operators.len();
    let row = step.storages[storage];
    for later in now + 1..=now + 2 * count as u64 {
        let at = usize::try_from(later).unwrap() % count;
        if row.death.is_some_and(|death| death % count == at) {
            return Next::Death(later);
        }
        if row.death.is_none() && row.birth == Some(at) {
            return Next::Never;
        }
        if step.operators[at].uses.iter().any(|used| used.storage == storage) {
            let is_unused = row.death.is_none() && row.birth.is_some_and(|birth| at <= birth);
            return if is_unused { Next::Never } else { Next::Use(later) };
        }
    }
    Next::Never
}

fn twin(step: &Step, budget: u64, eviction: &mut dyn Eviction, rounds: usize) -> Twin {
    let mut twin = Twin::default();
    let count = step.operators.len();
    for (index, storage) in step.storages.iter().enumerate() {
        let wraps = storage.birth.is_some_and(|birth| storage.death.is_none_or(|death| death <= birth));
        if storage.birth.is_none() || wraps {
            twin.inside.insert(index, 0);
        }
    }
    for now in 0..(rounds * count) as u64 {
        let at = usize::try_from(now).unwrap() % count;
        if at == 0 {
            twin.bytes.push([0, 0]);
        }
        for (index, storage) in step.storages.iter().enumerate() {
            let end = storage.death.or(storage.birth);
            if end == Some(at) || (at == 0 && now > 0 && end == Some(count)) {
                twin.gone(index);
            }
        }
        for (index, storage) in step.storages.iter().enumerate() {
            if at == 0 && now > 0 && storage.birth.is_none() && storage.death.is_some() {
                twin.inside.insert(index, now);
            }
        }
        if !twin.operator(step, budget, now, eviction) {
            break;
        }
    }
    twin
}

/// Gives random advice: too little, too much, twice, and unknown storages.
struct Wild(Draw);

impl Eviction for Wild {
    fn name(&self) -> &'static str {
        "wild"
    }

    fn evict(&mut self, situation: &Situation<'_>) -> Vec<u64> {
        let count = situation.candidates.len() + 2;
        (0..self.0.below(2 * count))
            .map(|_| [u64::MAX, self.0.below(count) as u64][self.0.below(5).min(1)])
            .collect()
    }

    fn leave(&mut self, situation: &Situation<'_>) -> Vec<u64> {
        let candidates = situation.candidates.iter().filter(|_| self.0.one_in(3));
        candidates.map(|candidate| candidate.storage).collect()
    }
}

fn evictions(seed: u64) -> [Box<dyn Eviction>; 4] {
    [Box::new(Genoa), Box::new(Lru), Box::new(NextEvent), Box::new(Wild(Draw(seed)))]
}

#[test]
fn the_simulator_moves_what_its_twin_moves() {
    let mut failures = 0;
    for seed in 0..10_000 {
        let step = steps::any(&mut Draw(seed), 12);
        let (least, most) = (step.least_budget().1, step.peak_bytes());
        let budget = least.saturating_sub(seed % 4 / 3) + (most - least) * (seed % 5) / 5;
        let pairs = evictions(seed).into_iter().zip(evictions(seed));
        for (mut one, mut other) in pairs {
            let outcome = simulate(&step, &Terms::bytes_alone(budget), &mut *one, 3);
            let twin = twin(&step, budget, &mut *other, 3);
            let moved = |m: &Move| (m.operator, m.is_after, m.storage, m.kind);
            assert_eq!(
                outcome.log.iter().map(moved).collect::<Vec<_>>(),
                twin.moves,
                "{seed} {}",
                one.name()
            );
            let failed = outcome.out_of_memory.map(|error| (error.operator, error.needed_bytes));
            assert_eq!((outcome.peak_bytes, failed), (twin.peak, twin.failed), "{seed} {}", one.name());
            for (round, bytes) in outcome.rounds.iter().zip(&twin.bytes) {
                assert_eq!([round.bytes_in, round.bytes_out], *bytes, "{seed} {}", one.name());
            }
            assert!(outcome.peak_bytes <= budget.max(1));
            assert_eq!(failed.is_some(), budget < least, "{seed}");
            failures += usize::from(failed.is_some());
        }
    }
    assert!(failures > 1000, "{failures}");
}

#[test]
fn genoa_peaks_at_the_least_budget() {
    for seed in 0..2000 {
        let step = steps::any(&mut Draw(seed), 12);
        let (operator, least) = step.least_budget();
        let outcome = simulate(&step, &Terms::bytes_alone(least), &mut Genoa, 2);
        assert_eq!((outcome.peak_bytes, outcome.out_of_memory), (least, None), "{seed}");
        let Some(less) = least.checked_sub(1) else { continue };
        let error = simulate(&step, &Terms::bytes_alone(less), &mut Genoa, 2).out_of_memory.unwrap();
        assert_eq!((error.operator, error.needed_bytes), (operator as u64, least), "{seed}");
    }
}

/// Returns the seconds of some rounds and of their operators, and the bytes fetched and copied out.
fn timed(step: &Step, terms: &Terms, eviction: &mut dyn Eviction) -> ([f64; 2], [u64; 2]) {
    let outcome = simulate(step, terms, eviction, 3);
    let running = outcome.seconds() - outcome.stalled_seconds();
    let bytes = |of: fn(&Round) -> u64| outcome.rounds.iter().map(of).sum::<u64>();
    ([outcome.seconds(), running], [bytes(|round| round.bytes_in), bytes(|round| round.bytes_out)])
}

#[test]
fn time_is_that_of_operators_and_of_what_they_wait_for() {
    for seed in 0..2000 {
        let step = steps::any(&mut Draw(seed), 12);
        let (least, most) = (step.least_budget().1, step.peak_bytes());
        let budget_bytes = least + (most - least) * (seed % 3) / 3;
        let speed = |times: f64| [1.0, 0.5].map(|speed| speed * times * float(1 + seed % 7));
        let terms = |[inward, outward]: [f64; 2]| Terms {
            in_bytes_per_second: inward,
            out_bytes_per_second: outward,
            ..Terms::bytes_alone(budget_bytes)
        };
        for (mut one, mut other) in evictions(seed).into_iter().zip(evictions(seed)) {
            let ([seconds, running], [bytes_in, _]) = timed(&step, &terms(speed(1.0)), &mut *one);
            assert!((running - 3.0 * step.seconds()).abs() < 1e-6, "{seed} {}", one.name());
            // Fetches on demand are waited for.
            assert!(seconds + 1e-6 >= float(bytes_in) / speed(1.0)[0], "{seed} {}", one.name());
            let ([faster, _], bytes) = timed(&step, &terms(speed(2.0)), &mut *other);
            assert!(faster <= seconds + 1e-6 && bytes[0] == bytes_in, "{seed} {}", one.name());
        }
        let free = timed(&step, &Terms::bytes_alone(budget_bytes), &mut Lru);
        assert!((free.0[0] - free.0[1]).abs() < 1e-9, "{seed}");
    }
}
