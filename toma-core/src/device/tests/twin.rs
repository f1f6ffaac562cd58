//! The queue of one device, told naively: lists that are searched from one end to the other.

use std::time::Instant;

use crate::device::ledger::Wish;
use crate::device::queue::TurnKind::{self, Exclusive, Shared};
use crate::device::sleepers::SleeperId;
use crate::memory::Reading;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Twin {
    /// The participants that have a turn.
    turns: Vec<(usize, TurnKind)>,
    waiting: Vec<(usize, TurnKind, Instant)>,
    /// Participants whose turn was granted while they waited, and not claimed yet.
    granted: Vec<(usize, Instant)>,
    /// The participants in the way of a wait in vain, and until when that counts.
    vain: Option<(Vec<usize>, Instant)>,
    reserved: Vec<u64>,
    limit: u64,
    wishes: Vec<(SleeperId, Option<Instant>)>,
}

impl Twin {
    pub(super) fn running(&self) -> usize {
        self.turns.len()
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn runs(&self, party: usize) -> bool {
        self.turns.iter().any(|turn| turn.0 == party)
    }

    /// The turns of others.
    pub(super) fn others(&self, party: usize) -> usize {
        self.turns.iter().filter(|turn| turn.0 != party).count()
    }

    pub(super) fn admits_newcomer(&self) -> bool {
        self.waiting.is_empty() && self.turns.iter().all(|turn| turn.1 == Shared)
    }

    pub(super) fn begin(&mut self, party: usize, kind: TurnKind) {
        assert!(!self.runs(party), "{party} has a turn");
        self.turns.push((party, kind));
    }

    pub(super) fn end(&mut self, party: usize) {
        self.turns.retain(|turn| turn.0 != party);
        if let Some((blockers, _)) = &mut self.vain {
            blockers.retain(|blocker| *blocker != party);
        }
        self.vain = self.vain.take().filter(|(blockers, _)| !blockers.is_empty());
    }

    pub(super) fn queue(&mut self, party: usize, kind: TurnKind, until: Instant) {
        self.waiting.push((party, kind, until));
    }

    /// Where any wait, the turns end that were not claimed within their bound. Returns whose.
    pub(super) fn take_back(&mut self, now: Instant) -> Vec<usize> {
        if self.waiting.iter().all(|entry| now >= entry.2) {
            return Vec::new();
        }
        let late: Vec<_> = self.granted.iter().filter(|grant| now >= grant.1).map(|grant| grant.0).collect();
        for &party in &late {
            self.withdraw(party);
        }
        late
    }

    /// Returns the parties that turns are granted to.
    pub(super) fn look(&mut self, now: Instant) -> Vec<usize> {
        self.waiting.retain(|entry| now < entry.2);
        let mut granted = Vec::new();
        while let Some(&(party, kind, until)) = self.waiting.first() {
            let blocks = |turn: &(usize, TurnKind)| kind == Exclusive || turn.1 == Exclusive;
            if self.turns.iter().any(blocks) {
                break;
            }
            self.waiting.remove(0);
            self.begin(party, kind);
            self.granted.push((party, until));
            granted.push(party);
        }
        granted
    }

    pub(super) fn is_granted(&self, party: usize) -> bool {
        self.granted.iter().any(|grant| grant.0 == party)
    }

    pub(super) fn claim(&mut self, party: usize) -> bool {
        let was_granted = self.is_granted(party);
        self.granted.retain(|grant| grant.0 != party);
        was_granted
    }

    pub(super) fn withdraw(&mut self, party: usize) {
        self.waiting.retain(|entry| entry.0 != party);
        if self.claim(party) {
            self.end(party);
        }
    }

    pub(super) fn waited_in_vain(&mut self, until: Instant) {
        let until = self.vain.take().map_or(until, |vain| vain.1.max(until));
        let blockers: Vec<_> = self.turns.iter().map(|turn| turn.0).collect();
        self.vain = Some((blockers, until)).filter(|(blockers, _)| !blockers.is_empty());
    }

    pub(super) fn is_in_vain(&self) -> bool {
        self.vain.is_some()
    }

    pub(super) fn has_patience(&mut self, now: Instant) -> bool {
        self.vain = self.vain.take().filter(|vain| now < vain.1);
        self.vain.is_none()
    }

    /// Whether the bytes are granted.
    pub(super) fn reserve(&mut self, wish: &Wish, free: Reading, now: Instant) -> bool {
        self.wishes.retain(|(key, until)| *key == wish.key || until.is_none_or(|until| now < until));
        if self.wishes.iter().all(|(key, _)| *key != wish.key) {
            self.wishes.push((wish.key, wish.until));
        }
        let limit = if self.reserved.is_empty() { free.free_bytes } else { self.limit };
        let sum = self.reserved.iter().sum::<u64>() + wish.bytes;
        let granted = self.wishes[0].0 == wish.key && sum <= limit && wish.bytes <= free.free_bytes;
        if granted {
            self.wishes.remove(0);
            self.reserved.push(wish.bytes);
            self.limit = limit;
        }
        granted
    }

    pub(super) fn leave_ledger(&mut self, key: SleeperId) {
        self.wishes.retain(|wish| wish.0 != key);
    }

    pub(super) fn give_back(&mut self, bytes: u64) {
        let at = self.reserved.iter().position(|reserved| *reserved == bytes);
        self.reserved.swap_remove(at.expect("it was reserved"));
    }

    /// Of all turns at most one is exclusive, and what waits has another in its way.
    pub(super) fn check(&self) {
        let exclusive = self.turns.iter().filter(|turn| turn.1 == Exclusive).count();
        assert!(exclusive <= 1, "{self:#?}");
        assert!(self.waiting.is_empty() || !self.turns.is_empty(), "{self:#?}");
    }
}
