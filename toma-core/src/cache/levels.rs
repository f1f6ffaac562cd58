//! The few entries of one key, one per level of free memory.

use super::Remembered;
use crate::policy::Measurements;

/// Free memory within this many bytes counts as equal: a neighbor taking 300 MiB must not bring the
/// failures back.
const TOLERANCE_BYTES: u64 = 512 << 20;

/// Entries one key may have; beyond it the oldest goes.
const MAX_LEVELS: usize = 4;

/// What is known at different levels of free memory, ordered by it.
#[derive(Clone, Debug, Default)]
pub(super) struct Levels {
    entries: [Option<Remembered>; MAX_LEVELS],
}

impl Levels {
    pub(super) fn one(remembered: Remembered) -> Self {
        let mut levels = Self::default();
        levels.entries[0] = Some(remembered);
        levels
    }

    /// The entry learned nearest below the free memory there is now, or the lowest: less free
    /// memory never sends a call back to its initial size. `free` is asked only when it matters.
    pub(super) fn choose(&self, free: impl FnOnce() -> Option<u64>) -> Option<Remembered> {
        if self.is_plain() { self.first() } else { self.nearest_below(free()) }
    }

    /// Whether there is nothing to choose, so that memory need not be read.
    pub(super) fn is_plain(&self) -> bool {
        self.entries[1].is_none()
    }

    pub(super) fn first(&self) -> Option<Remembered> {
        self.entries[0].clone()
    }

    /// The same for one thread alone.
    pub(super) fn unshared(&self) -> Self {
        Self { entries: self.entries.each_ref().map(|entry| entry.as_ref().map(Remembered::unshared)) }
    }

    /// What nobody could read counts as the lowest level, when learned and when asked.
    fn nearest_below(&self, free: Option<u64>) -> Option<Remembered> {
        let reachable = |entry: &&Remembered| match (entry.free_bytes, free) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(learned), Some(free)) => learned <= free.saturating_add(tolerance(learned)),
        };
        self.iter().filter(reachable).last().or_else(|| self.iter().next()).cloned()
    }

    /// Keeps `learned` in place of the entry at about the same level, or beside the others.
    pub(super) fn learn(&mut self, learned: Remembered) {
        let mut entries: Vec<Remembered> =
            self.iter().filter(|entry| !replaces(&learned, entry)).cloned().collect();
        if entries.len() == MAX_LEVELS {
            let oldest = (0..MAX_LEVELS).min_by_key(|&i| entries[i].learned).unwrap_or(0);
            entries.remove(oldest);
        }
        if learned.failed_probes > 0 {
            // The reading after a probe may belong to another level than the one that was probed.
            let probed = entries.iter_mut().filter(|entry| entry.settled == learned.settled);
            probed.for_each(|entry| {
                (entry.failed_probes, entry.learned) = (learned.failed_probes, learned.learned);
            });
        }
        entries.push(learned);
        entries.sort_by_key(|entry| entry.free_bytes);
        self.entries = std::array::from_fn(|i| entries.get(i).cloned());
    }

    /// Takes the record of a call that started with so much free.
    pub(super) fn note(&mut self, free: Option<u64>, measurements: &Measurements) {
        let Some(chosen) = self.choose(|| free) else { return };
        let mut entries = self.entries.iter_mut().flatten();
        if let Some(entry) = entries.find(|entry| entry.free_bytes == chosen.free_bytes) {
            entry.note(measurements);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Remembered> {
        self.entries.iter().flatten()
    }
}

fn replaces(new: &Remembered, old: &Remembered) -> bool {
    match (new.free_bytes, old.free_bytes) {
        (Some(new), Some(old)) => new.abs_diff(old) <= tolerance(new.max(old)),
        // A level nobody could read gives way to whatever is known better, and not the other way
        // round: one reading that fails must not bring the failures of all levels back.
        (_, None) => true,
        (None, Some(_)) => false,
    }
}

pub(super) fn tolerance(bytes: u64) -> u64 {
    TOLERANCE_BYTES.max(bytes / 20)
}

#[cfg(test)]
mod tests {
    use super::{Levels, MAX_LEVELS, Measurements, Remembered};

    const GIB: u64 = 1 << 30;

    fn at(free_gib: u64, settled: usize) -> Remembered {
        Remembered { free_bytes: Some(free_gib * GIB), ..Remembered::new(settled) }
    }

    fn settled(levels: &Levels, free: u64) -> Option<usize> {
        levels.choose(|| Some(free)).map(|entry| entry.settled)
    }

    #[test]
    fn the_nearest_below_is_chosen_and_the_lowest_when_there_is_none() {
        let mut levels = Levels::default();
        for entry in [at(10, 64), at(2, 16), at(5, 32)] {
            levels.learn(entry);
        }
        let chosen = [1, 2, 3, 5, 9, 10, 80].map(|gib| settled(&levels, gib * GIB));
        assert_eq!(chosen, [16, 16, 16, 32, 32, 64, 64].map(Some));
    }

    #[test]
    fn a_neighbor_taking_a_little_changes_nothing() {
        let mut levels = Levels::default();
        levels.learn(at(10, 64));
        levels.learn(at(2, 16));
        assert_eq!(settled(&levels, 10 * GIB - (300 << 20)), Some(64));
        levels.learn(Remembered { free_bytes: Some(10 * GIB - (300 << 20)), ..Remembered::new(48) });
        assert_eq!(levels.iter().count(), 2);
        assert_eq!(settled(&levels, 10 * GIB), Some(48));
    }

    #[test]
    fn a_single_entry_needs_no_reading() {
        let levels = Levels::one(at(10, 64));
        let entry = levels.choose(|| panic!("memory was read"));
        assert_eq!(entry.map(|entry| entry.settled), Some(64));
    }

    #[test]
    fn a_record_goes_to_the_level_a_call_started_at() {
        let mut levels = Levels::default();
        for entry in [at(10, 64), at(2, 16)] {
            levels.learn(entry);
        }
        let measurements = Measurements { clean_runs: 7, ..Measurements::NEW };
        levels.note(Some(9 * GIB), &measurements);
        let runs = levels
            .iter()
            .map(|entry| entry.measurements.as_ref().map(|measurements| measurements.clean_runs));
        assert_eq!(runs.collect::<Vec<_>>(), [Some(7), None]);
    }

    #[test]
    fn unknown_memory_takes_the_lowest() {
        let mut levels = Levels::default();
        levels.learn(at(10, 64));
        levels.learn(at(2, 16));
        assert_eq!(levels.choose(|| None).map(|entry| entry.settled), Some(16));
    }

    #[test]
    fn the_oldest_level_goes() {
        let mut levels = Levels::default();
        for gib in 1..=MAX_LEVELS as u64 + 1 {
            levels.learn(at(gib * 10, usize::try_from(gib).unwrap()));
        }
        let left: Vec<usize> = levels.iter().map(|entry| entry.settled).collect();
        assert_eq!(left, [2, 3, 4, 5]);
    }
}
