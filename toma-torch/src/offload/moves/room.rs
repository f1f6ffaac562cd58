//! Chooses and evicts storages when bytes are lacking.

use std::sync::TryLockError;
use std::thread;

use toma_core::private::contained;
use toma_plan::residency::{Candidate, Eviction, Situation};

use super::callbacks::Moving;
use super::counts::add;
use super::state::ManagerState;
use super::stopwatch::Stopwatch;
use super::table::{Entry, Location};

impl ManagerState {
    /// Waits for an eviction in progress, or evicts storages. Returns true if an allocation that lacks so many bytes is
    /// worth a retry.
    pub(crate) fn try_make_room(&self, lacking_bytes: u64) -> bool {
        Stopwatch::pauses(|| {
            let _moving = Moving::begin_aside();
            self.outwards.wait_for_a_move() || self.make_room(lacking_bytes) > 0 || self.wait_for_a_move()
        })
    }

    /// Evicts storages until at most `bytes` are allocated, as far as possible.
    pub(crate) fn evict_down_to(&self, bytes: u64) {
        loop {
            let lacking = self.allocated_bytes().saturating_sub(bytes);
            if lacking == 0 || !self.try_make_room(lacking) {
                return;
            }
        }
    }

    /// Makes room for `more` bytes, as far as possible.
    pub(crate) fn make_room_for(&self, more: u64) {
        loop {
            let lacking = self.lacking_bytes(more);
            if lacking == 0 || !self.try_make_room(lacking) {
                return;
            }
        }
    }

    /// Waits for a storage that another thread moves, unless that thread may itself wait for room. Returns true if it
    /// has waited.
    fn wait_for_a_move(&self) -> bool {
        let table = self.table();
        let other_resumes = table.resuming.is_some_and(|thread| thread != thread::current().id());
        let moves = |entry: &Entry| match entry.location {
            Location::Evicting => true,
            Location::Fetching { ahead } => ahead || other_resumes,
            _ => false,
        };
        let waits = table.entries.values().any(moves);
        if waits {
            drop(self.wait(table));
        }
        waits
    }

    /// Evicts storages until `lacking_bytes` are freed, and returns the freed bytes.
    pub(crate) fn make_room(&self, lacking_bytes: u64) -> u64 {
        let (now, candidates) = self.table().candidates();
        let chosen = self.choose(now, lacking_bytes, &candidates);
        let chosen = chosen.iter().filter_map(|storage| {
            let found = candidates.binary_search_by_key(storage, |(_, candidate)| candidate.storage);
            found.ok().map(|at| candidates[at].0)
        });
        let mut rest = candidates.clone();
        rest.sort_by_key(|(_, candidate)| candidate.last_use);
        let mut freed = 0;
        for id in chosen.chain(rest.iter().map(|(id, _)| *id)) {
            if freed >= lacking_bytes {
                break;
            }
            // A storage that cannot be evicted is skipped.
            freed += self.offload(id, self.table()).unwrap_or(0);
        }
        freed
    }

    /// Storages that the eviction policy chooses; none if it panics or is choosing already.
    fn choose(&self, now: u64, lacking_bytes: u64, candidates: &[(u64, Candidate)]) -> Vec<u64> {
        let candidates: Vec<_> = candidates.iter().map(|(_, candidate)| *candidate).collect();
        self.with_eviction(|eviction| {
            let situation = Situation { now, lacking_bytes, candidates: &candidates };
            if lacking_bytes > 0 { eviction.evict(&situation) } else { eviction.leave(&situation) }
        })
        .unwrap_or_default()
    }

    pub(crate) fn with_eviction<T>(&self, question: impl FnOnce(&mut dyn Eviction) -> T) -> Option<T> {
        let mut eviction = match self.eviction.try_lock() {
            Ok(eviction) => eviction,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let answer = contained(|| question(&mut **eviction));
        if answer.is_none() {
            add(&self.counts.policy_panics, 1);
        }
        answer
    }

    /// Evicts the storages that the policy does not want on the device after an operator.
    pub(crate) fn evict_early(&self) {
        let (now, candidates) = self.table().candidates();
        for storage in self.choose(now, 0, &candidates) {
            if let Ok(at) = candidates.binary_search_by_key(&storage, |(_, candidate)| candidate.storage) {
                let _stays = self.offload(candidates[at].0, self.table());
            }
        }
    }
}
