//! The simulator, which alone computes the cost of evictions and plans.

use std::collections::BTreeSet;

use super::links::Links;
use super::simulation::{Move, MoveKind, Round, Simulation};
use super::timeline::Timeline;
use super::{
    Absence, Candidate, Eviction, NextEvent, OutOfMemory, Plan, Situation, Step, Storage, Terms, Use,
};

/// Simulates `rounds` repetitions of a step under an eviction, without its plan.
///
/// # Panics
///
/// If the step is [invalid](Step::check).
pub fn simulate(step: &Step, terms: &Terms, eviction: &mut dyn Eviction, rounds: usize) -> Simulation {
    let mut simulator = Simulator::new(step, terms);
    simulator.repeat(rounds, eviction, None);
    simulator.outcome
}

/// Simulates `rounds` repetitions of a step under a plan.
///
/// If the plan leaves too little room, [`NextEvent`] decides. This happens in the first rounds, because a plan is for a
/// step that has been repeated, or in a smaller budget. A planned fetch that lacks room is left to the operator that
/// needs the storage.
///
/// # Panics
///
/// If the step is [invalid](Step::check), or the plan is one of another step.
pub fn simulate_plan(step: &Step, terms: &Terms, plan: &Plan, rounds: usize) -> Simulation {
    let mut simulator = Simulator::new(step, terms);
    simulator.repeat(rounds, &mut NextEvent, Some(plan));
    simulator.outcome
}

impl Plan {
    /// Creates a plan of these absences. Storages that are fetched at the same operator are fetched in this order.
    ///
    /// # Panics
    ///
    /// If the step is [invalid](Step::check), or an absence names a storage or an operator that is not in it.
    pub fn new(step: &Step, terms: &Terms, name: &'static str, absences: Vec<Absence>) -> Self {
        let mut plan = Self::of(step, name, absences);
        let Simulation { rounds, peak_bytes, .. } = settled(step, terms, &plan);
        plan.round = rounds.last().copied().unwrap_or_default();
        plan.peak_bytes = peak_bytes;
        plan
    }
}

/// Simulates two rounds of a plan that begin with the evictions that it has at the end of a step.
fn settled(step: &Step, terms: &Terms, plan: &Plan) -> Simulation {
    let mut simulator = Simulator::new(step, terms);
    for storage in plan.evicted_at_the_end(step) {
        simulator.goes(storage, Lies::Outside);
        simulator.states[storage].has_copy = true;
    }
    simulator.repeat(2, &mut NextEvent, Some(plan));
    simulator.outcome
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lies {
    /// Not made, or freed.
    Nowhere,
    OnDevice,
    Outside,
}

#[derive(Clone, Copy, Debug)]
struct StorageState {
    lies: Lies,
    has_copy: bool,
    last_use: u64,
}

struct Simulator<'a> {
    step: &'a Step,
    terms: &'a Terms,
    timeline: Timeline,
    states: Vec<StorageState>,
    /// Storages on the device that may be evicted.
    movable: BTreeSet<usize>,
    /// Bytes on the device.
    resident: u64,
    links: Links,
    round: Round,
    outcome: Simulation,
}

impl<'a> Simulator<'a> {
    fn new(step: &'a Step, terms: &'a Terms) -> Self {
        let mut simulator = Self {
            step,
            terms,
            timeline: Timeline::new(step),
            states: vec![
                StorageState { lies: Lies::Nowhere, has_copy: false, last_use: 0 };
                step.storages.len()
            ],
            movable: BTreeSet::new(),
            resident: 0,
            links: Links::new(*terms, step.storages.len()),
            round: Round::default(),
            outcome: Simulation::default(),
        };
        simulator.bring(Storage::lives_before, 0);
        simulator
    }

    fn repeat(&mut self, rounds: usize, eviction: &mut dyn Eviction, plan: Option<&Plan>) {
        let operators = self.step.operators.len();
        for round in 0..rounds {
            let [start, stalled] = [self.links.now, self.links.stalled];
            let first = (round * operators) as u64;
            if round > 0 {
                self.bring(Storage::comes_with_each_step, first);
            }
            for operator in 0..operators {
                let now = first + operator as u64;
                if let Err(error) = self.operator(operator, now, eviction, plan) {
                    self.outcome.out_of_memory = Some(error);
                    return;
                }
            }
            self.end(operators);
            self.round.seconds = self.links.now - start;
            self.round.stalled_seconds = self.links.stalled - stalled;
            self.outcome.rounds.push(std::mem::take(&mut self.round));
        }
    }

    fn operator(
        &mut self,
        operator: usize,
        now: u64,
        eviction: &mut dyn Eviction,
        plan: Option<&Plan>,
    ) -> Result<(), OutOfMemory> {
        self.end(operator);
        self.make_room(operator, now, eviction)?;
        self.run(operator, now, plan);
        let leaving = match plan {
            Some(plan) => plan.leaves_after(operator).iter().map(|&storage| storage as u64).collect(),
            None => self.leaving(now, eviction),
        };
        for storage in leaving {
            self.offload(storage, now, true);
        }
        Ok(())
    }

    /// Makes storages that appear without an operator.
    fn bring(&mut self, which: impl Fn(&Storage) -> bool, now: u64) {
        for (index, storage) in self.step.storages.iter().enumerate() {
            if which(storage) {
                self.make(index, now);
            }
        }
    }

    fn make(&mut self, storage: usize, now: u64) {
        self.states[storage] = StorageState { lies: Lies::Nowhere, has_copy: false, last_use: now };
        self.comes(storage);
        self.links.made(storage);
    }

    /// Frees storages that end before an operator.
    fn end(&mut self, operator: usize) {
        for index in 0..self.timeline.gone(operator).len() {
            self.goes(self.timeline.gone(operator)[index], Lies::Nowhere);
        }
    }

    fn comes(&mut self, storage: usize) {
        let row = &self.step.storages[storage];
        debug_assert_ne!(self.states[storage].lies, Lies::OnDevice);
        self.states[storage].lies = Lies::OnDevice;
        self.resident += row.bytes;
        if !row.stays {
            self.movable.insert(storage);
        }
    }

    fn goes(&mut self, storage: usize, to: Lies) {
        let before = std::mem::replace(&mut self.states[storage].lies, to);
        self.movable.remove(&storage);
        if before == Lies::OnDevice {
            self.resident -= self.step.storages[storage].bytes;
        }
    }

    fn missing(&self, operator: usize) -> Vec<usize> {
        let uses = self.step.operators[operator].uses.iter().map(|used| used.storage);
        uses.filter(|storage| self.states[*storage].lies == Lies::Outside).collect()
    }

    /// Returns the bytes that an operator takes in addition to those on the device.
    fn wanted(&self, operator: usize) -> u64 {
        let missing = self.missing(operator).into_iter().map(|storage| self.step.storages[storage].bytes);
        missing.sum::<u64>() + self.step.operators[operator].inside_bytes
    }

    fn make_room(
        &mut self,
        operator: usize,
        now: u64,
        eviction: &mut dyn Eviction,
    ) -> Result<(), OutOfMemory> {
        let needed_bytes = self.resident + self.wanted(operator);
        let budget_bytes = self.terms.budget_bytes;
        let lacking_bytes = needed_bytes.saturating_sub(budget_bytes);
        if lacking_bytes == 0 {
            return Ok(());
        }
        let candidates = self.candidates(now, &self.step.operators[operator].uses);
        let situation = Situation { now, lacking_bytes, candidates: &candidates };
        let advice = eviction.evict(&situation);
        let may =
            |storage: &u64| candidates.binary_search_by_key(storage, |candidate| candidate.storage).is_ok();
        let mut leaving: Vec<_> = advice.into_iter().filter(may).collect();
        let mut rest: Vec<_> =
            candidates.iter().map(|candidate| (candidate.last_use, candidate.storage)).collect();
        rest.sort_unstable();
        leaving.extend(rest.into_iter().map(|(_, storage)| storage));
        let mut left = needed_bytes;
        for storage in leaving {
            if left <= budget_bytes {
                break;
            }
            left -= self.offload(storage, now, false);
        }
        if left <= budget_bytes {
            Ok(())
        } else {
            Err(OutOfMemory { operator: now, needed_bytes: left, budget_bytes })
        }
    }

    /// Returns the storages that may be evicted, by number: all on the device except those in use.
    fn candidates(&self, now: u64, uses: &[Use]) -> Vec<Candidate> {
        let may = self.movable.iter().filter(|index| uses.iter().all(|used| used.storage != **index));
        let candidates = may.map(|&index| Candidate {
            storage: index as u64,
            bytes: self.step.storages[index].bytes,
            last_use: self.states[index].last_use,
            next: self.timeline.next(index, now),
            has_copy: self.states[index].has_copy,
        });
        candidates.collect()
    }

    fn leaving(&self, now: u64, eviction: &mut dyn Eviction) -> Vec<u64> {
        let candidates = self.candidates(now, &[]);
        eviction.leave(&Situation { now, lacking_bytes: 0, candidates: &candidates })
    }

    /// Evicts a storage, if it can move. Returns the bytes that are freed.
    fn offload(&mut self, storage: u64, now: u64, is_after: bool) -> u64 {
        let index = usize::try_from(storage).unwrap_or(usize::MAX);
        if !self.movable.contains(&index) {
            return 0;
        }
        let bytes = self.step.storages[index].bytes;
        self.goes(index, Lies::Outside);
        let kind = if std::mem::replace(&mut self.states[index].has_copy, true) {
            MoveKind::Left
        } else {
            self.round.bytes_out += bytes;
            self.links.copy_out(index, bytes);
            MoveKind::CopiedOut
        };
        self.outcome.log.push(Move { operator: now, is_after, storage, kind });
        bytes
    }

    /// Fetches a storage while the running operator has allocated `inside_bytes` of its own.
    fn fetch(&mut self, storage: usize, now: u64, inside_bytes: u64) {
        let bytes = self.step.storages[storage].bytes;
        self.comes(storage);
        self.round.bytes_in += bytes;
        self.links.fetch(storage, bytes, self.resident + inside_bytes);
        let moved = Move { operator: now, is_after: false, storage: storage as u64, kind: MoveKind::Fetched };
        self.outcome.log.push(moved);
    }

    /// Fetches missing arguments, then storages that are planned for later, and runs the operator.
    fn run(&mut self, operator: usize, now: u64, plan: Option<&Plan>) {
        let row = &self.step.operators[operator];
        // The operator's own bytes are taken when its arguments are there.
        for storage in self.missing(operator) {
            self.fetch(storage, now, 0);
        }
        for &storage in plan.map_or(&[][..], |plan| plan.fetches_at(operator)) {
            let taken = self.resident + row.inside_bytes + self.step.storages[storage].bytes;
            if self.states[storage].lies == Lies::Outside && taken <= self.terms.budget_bytes {
                self.fetch(storage, now, row.inside_bytes);
            }
        }
        let taken = self.resident + row.inside_bytes;
        self.outcome.peak_bytes = self.outcome.peak_bytes.max(taken);
        self.links.run(row.uses.iter().map(|used| used.storage), taken, row.duration.as_secs_f64());
        for used in &row.uses {
            let state = &mut self.states[used.storage];
            state.last_use = now;
            state.has_copy &= !used.writes;
        }
        for index in 0..self.timeline.made(operator).len() {
            self.make(self.timeline.made(operator)[index], now);
        }
    }
}
