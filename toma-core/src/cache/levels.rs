//! The few entries of one key, one per level of free memory.
//!
//! # Why
//!
//! Free memory is read only if a key has several levels, because with one there is nothing to choose. So a warm
//! call of the default cache is a stack walk and a lookup in the memo.

use super::Remembered;
use crate::policy::Measurements;

/// Differences of free memory within this many bytes do not count: other work that takes 300 MiB must not bring the
/// failures back.
const TOLERANCE_BYTES: u64 = 512 << 20;

/// Number of entries that one key may have; beyond it the oldest is removed.
const MAX_LEVELS: usize = 4;

/// Evidence at different levels of free memory, ordered by level.
#[derive(Clone, Debug, Default)]
pub(super) struct Levels(Vec<Remembered>);

impl Levels {
    /// True if there is nothing to choose, so that free memory need not be read.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.0.len() < 2
    }

    /// Copies the levels for one thread alone.
    pub(super) fn unshared(&self) -> Self {
        Self(self.iter().map(Remembered::unshared).collect())
    }

    /// Returns the entry learned nearest below the current free memory, or the lowest: less free memory never sends
    /// a call back to its initial size.
    #[inline]
    pub(super) fn at(&self, free: Option<u64>) -> Option<&Remembered> {
        match &*self.0 {
            [] => None,
            [known] => Some(known),
            many => many.get(self.nearest_below(free)),
        }
    }

    /// A failed reading counts as the lowest level, both of an entry and of the call.
    fn nearest_below(&self, free: Option<u64>) -> usize {
        let reachable = |entry: &Remembered| match (entry.free_bytes, free) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(learned), Some(free)) => learned <= free.saturating_add(tolerance(learned)),
        };
        self.0.iter().rposition(reachable).unwrap_or(0)
    }

    /// Adds `learned`, in place of the entry at about the same level if there is one.
    pub(super) fn learn(&mut self, learned: Remembered) {
        let Self(entries) = self;
        entries.retain(|entry| !replaces(&learned, entry));
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
    }

    /// Keeps the measurements of a call that started at this level of free memory.
    pub(super) fn note(&mut self, free: Option<u64>, measurements: &Measurements) {
        let chosen = self.nearest_below(free);
        if let Some(entry) = self.0.get_mut(chosen) {
            entry.note(measurements);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Remembered> {
        self.0.iter()
    }
}

impl From<Option<Remembered>> for Levels {
    fn from(known: Option<Remembered>) -> Self {
        Self(Vec::from_iter(known))
    }
}

fn replaces(new: &Remembered, old: &Remembered) -> bool {
    match (new.free_bytes, old.free_bytes) {
        (Some(new), Some(old)) => new.abs_diff(old) <= tolerance(new.max(old)),
        // A level that could not be read is replaced by any that could, and not the other way round: one failed
        // reading must not bring the failures of all levels back.
        (_, None) => true,
        (None, Some(_)) => false,
    }
}

pub(super) fn tolerance(bytes: u64) -> u64 {
    TOLERANCE_BYTES.max(bytes / 20)
}

#[cfg(test)]
mod tests {
    use super::{Levels, Measurements, Remembered};

    const GIB: u64 = 1 << 30;

    fn at(free_gib: u64, settled: usize) -> Remembered {
        Remembered { free_bytes: Some(free_gib * GIB), ..Remembered::new(settled) }
    }

    #[test]
    fn a_record_goes_to_the_level_a_call_started_at() {
        let mut levels = Levels::default();
        for entry in [at(10, 64), at(2, 16)] {
            levels.learn(entry);
        }
        let measurements = Measurements { clean_runs: 7, ..Measurements::default() };
        levels.note(Some(9 * GIB), &measurements);
        let runs = levels
            .iter()
            .map(|entry| entry.measurements.as_ref().map(|measurements| measurements.clean_runs));
        assert_eq!(runs.collect::<Vec<_>>(), [Some(7), None]);
    }

    #[test]
    fn a_probe_that_failed_is_known_at_every_level_of_its_size() {
        let mut levels = Levels::default();
        for entry in [at(40, 64), at(10, 16), at(2, 8)] {
            levels.learn(entry);
        }
        levels.learn(Remembered { failed_probes: 3, ..at(20, 16) });
        let failed = levels.iter().map(|entry| (entry.settled, entry.failed_probes));
        assert_eq!(failed.collect::<Vec<_>>(), [(8, 0), (16, 3), (16, 3), (64, 0)]);
    }
}
