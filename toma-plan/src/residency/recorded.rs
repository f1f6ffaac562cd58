//! Steps made from traces.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use toma_trace::{Access, Block, Place, StorageId, Tick, Trace};

use super::{Operator, Step, Storage, Use};

impl Step {
    /// Returns the step of a trace as seen by one place, for a program that repeats it.
    ///
    /// Blocks of less than `min_bytes` stay. Blocks that live within one operator are part of its own allocations. A
    /// block that outlives the step replaces a block of the same size that is freed before, as gradients do. Operators
    /// without a measured duration take no time.
    ///
    /// The step is [valid](Step::check) if the trace has operators.
    #[must_use]
    pub fn of(trace: &Trace, place: &Place, min_bytes: u64) -> Self {
        let clock = Clock::new(trace);
        let mut blocks = BTreeMap::new();
        let mut storages = Vec::new();
        for (id, block) in trace.blocks().filter(|(_, block)| block.place == *place) {
            if let Some(storage) = clock.storage(block, min_bytes) {
                blocks.insert((id, block.birth.map(|birth| birth.tick)), storages.len());
                storages.push(storage);
            }
        }
        let mut operators = clock.operators(trace, place);
        add_uses(trace, &blocks, &storages, &mut operators);
        Self { storages, operators }.joined()
    }

    /// Returns the time of all operators in seconds.
    pub fn seconds(&self) -> f64 {
        self.operators.iter().map(|operator| operator.duration.as_secs_f64()).sum()
    }

    /// Joins each block that outlives the step with the block that the next step finds in its place.
    fn joined(mut self) -> Self {
        let mut left_behind: BTreeMap<u64, VecDeque<usize>> = BTreeMap::new();
        for (index, storage) in self.storages.iter().enumerate() {
            if storage.birth.is_some() && storage.death.is_none() {
                left_behind.entry(storage.bytes).or_default().push_back(index);
            }
        }
        let mut number: Vec<_> = (0..self.storages.len()).collect();
        for (old, death) in self.storages.clone().iter().enumerate().filter_map(|(index, storage)| {
            storage.death.filter(|_| storage.birth.is_none()).map(|death| (index, death))
        }) {
            let Some(waiting) = left_behind.get_mut(&self.storages[old].bytes) else { continue };
            let later = waiting.iter().position(|new| self.storages[*new].birth >= Some(death));
            if let Some(new) = later.and_then(|at| waiting.remove(at)) {
                number[old] = new;
                self.storages[new].death = Some(death);
            }
        }
        self.renumbered(&number)
    }

    /// Keeps only the storages whose number is their own.
    fn renumbered(self, number: &[usize]) -> Self {
        let is_kept: Vec<_> = number.iter().enumerate().map(|(index, new)| index == *new).collect();
        let mut places = vec![0; number.len()];
        let mut storages = Vec::new();
        for (index, storage) in self.storages.into_iter().enumerate().filter(|(index, _)| is_kept[*index]) {
            places[index] = storages.len();
            storages.push(storage);
        }
        let mut operators = self.operators;
        for used in operators.iter_mut().flat_map(|operator| &mut operator.uses) {
            used.storage = places[number[used.storage]];
        }
        Self { storages, operators }
    }
}

/// Maps a tick to its operator: the last one that has begun.
struct Clock {
    begins: Vec<Tick>,
}

impl Clock {
    fn new(trace: &Trace) -> Self {
        Self { begins: trace.operators().map(|(_, operator)| operator.interval.begin).collect() }
    }

    /// Returns the number of operators that have begun.
    fn begun(&self, tick: Tick) -> usize {
        self.begins.partition_point(|begin| *begin <= tick)
    }

    /// Returns the storage of a block; `None` if no operator can find it.
    fn storage(&self, block: &Block, min_bytes: u64) -> Option<Storage> {
        let birth = block.birth.and_then(|birth| self.begun(birth.tick).checked_sub(1));
        let death = block.death.map(|death| self.begun(death.tick));
        let first = birth.map_or(0, |birth| birth + 1);
        let storage = Storage { bytes: block.bytes, birth, death, stays: block.bytes < min_bytes.max(1) };
        (death.is_none_or(|death| first < death)).then_some(storage)
    }

    fn operators(&self, trace: &Trace, place: &Place) -> Vec<Operator> {
        let live = trace.live(place);
        let mut at_begin = vec![None; self.begins.len()];
        let mut highest = vec![0; self.begins.len()];
        let mut level = live.before();
        for &(tick, bytes) in live.steps() {
            if let Some(operator) = self.begun(tick).checked_sub(1) {
                at_begin[operator].get_or_insert(level);
                highest[operator] = highest[operator].max(bytes);
            }
            level = bytes;
        }
        let rows = trace.operators().zip(at_begin.into_iter().zip(highest));
        let operators = rows.map(|((_, operator), (at_begin, highest))| Operator {
            uses: Vec::new(),
            inside_bytes: at_begin.map_or(0, |at_begin| highest.saturating_sub(at_begin)),
            duration: operator.duration.unwrap_or(Duration::ZERO),
        });
        operators.collect()
    }
}

/// The block of a storage that was born at a tick.
type Born = (StorageId, Option<Tick>);

fn add_uses(trace: &Trace, blocks: &BTreeMap<Born, usize>, storages: &[Storage], operators: &mut [Operator]) {
    for used in trace.uses() {
        let id = used.operand.storage;
        let last = blocks.range((id, None)..=(id, Some(used.tick))).next_back();
        let Some(storage) = last.map(|(_, storage)| *storage) else { continue };
        let writes = match used.operand.access {
            Access::Reads => false,
            Access::Writes => true,
            Access::Makes | Access::Views => continue,
        };
        let operator = used.operator.index();
        // The operator that makes a storage does not use it, nor does one that overlaps with its maker.
        if !storages[storage].may_be_used_by(operator) {
            continue;
        }
        let uses = &mut operators[operator].uses;
        match uses.iter_mut().find(|found| found.storage == storage) {
            Some(found) => found.writes |= writes,
            None => uses.push(Use { storage, writes }),
        }
    }
}
