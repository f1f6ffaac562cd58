//! State of one device, and the rules by which turns are granted, as plain functions.
//!
//! No function reads a clock, locks or waits: times are arguments, and the keys of waits are results. The caller
//! wakes the returned waits after it has released its lock.

use std::time::Instant;

use super::fifo::Fifo;
use super::sleepers::SleeperId;
use crate::nesting::TurnId;

/// How a turn shares its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum TurnKind {
    /// Runs next to other shared turns.
    #[default]
    Shared,
    /// Runs next to no other turn, except those of attempts that never wait.
    Exclusive,
}

/// The state of one device in one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct QueueState {
    process: u32,
    /// Number of turns that have begun and not ended.
    pub(super) running: usize,
    /// Number of turns that have ever begun.
    started: u64,
    exclusive: Option<TurnId>,
    measuring: Option<SleeperId>,
    waiting: Fifo<TurnKind>,
    /// Turns that have begun for entries of the queue and are not claimed yet.
    granted: Vec<Grant>,
    /// Turns in which a nested loop gave way.
    marked: Vec<TurnId>,
    vain: Option<Vain>,
    /// True if two turns have ever run at the same time.
    has_met: bool,
}

/// A turn that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    pub(super) id: TurnId,
    pub(super) kind: TurnKind,
    pub(super) seen: Seen,
}

/// A granted turn that is not claimed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Grant {
    key: SleeperId,
    begun: Admitted,
    /// The bound of the wait.
    until: Option<Instant>,
}

/// Snapshot of a device at the beginning of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    process: u32,
    beside: bool,
    has_met: bool,
    started: u64,
}

impl Seen {
    /// True if two turns had ever run at the same time: others may then begin in the middle of the attempt.
    pub(crate) fn may_be_contended(self) -> bool {
        self.has_met
    }
}

/// A wait that lasted its full bound in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Vain {
    no_wait_until: Instant,
    /// The turns that ran then have at most this number, and `left` of them have not ended.
    newest: u64,
    left: usize,
}

/// State of an entry of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Granted(Admitted),
    Waits {
        /// When to look again without being woken: an entry ahead may be past its bound by then.
        look_at: Option<Instant>,
    },
    /// The entry was past its bound, in the queue or with an unclaimed turn, or belongs to another process.
    Gone,
}

impl QueueState {
    pub(super) fn new(process: u32) -> Self {
        Self { process, ..Self::default() }
    }

    /// Begins a shared turn, unless an entry waits or a turn is exclusive.
    #[inline]
    pub(super) fn try_shared(&mut self) -> Option<Admitted> {
        let begins = self.waiting.is_empty() && self.admits(TurnKind::Shared);
        begins.then(|| self.begin(TurnKind::Shared))
    }

    /// Begins a turn next to all others. Apart from grants, this is only for attempts that may not wait.
    #[inline]
    pub(super) fn begin(&mut self, kind: TurnKind) -> Admitted {
        self.running += 1;
        self.started += 1;
        self.has_met |= self.running > 1;
        let id = TurnId { process: self.process, number: self.started };
        if kind == TurnKind::Exclusive {
            self.exclusive = Some(id);
        }
        Admitted { id, kind, seen: self.seen() }
    }

    /// Returns the snapshot for an attempt that begins inside a turn.
    #[inline]
    pub(super) fn seen(&self) -> Seen {
        Seen { process: self.process, beside: self.running > 1, has_met: self.has_met, started: self.started }
    }

    /// Ends a turn. Call [`look`](Self::look) afterwards if anything waits.
    #[inline]
    pub(super) fn end(&mut self, id: TurnId) {
        if !self.marked.is_empty() {
            self.unmark(id);
        }
        if id.process != self.process {
            return;
        }
        self.running -= 1;
        self.exclusive = self.exclusive.filter(|&exclusive| exclusive != id);
        if let Some(vain) = &mut self.vain
            && id.number <= vain.newest
        {
            vain.left -= 1;
            self.vain = self.vain.filter(|vain| vain.left > 0);
        }
    }

    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Adds an entry at the tail. Call [`look`](Self::look) afterwards.
    pub(super) fn queue(&mut self, key: SleeperId, kind: TurnKind, until: Option<Instant>) {
        self.waiting.push(key, kind, until);
    }

    /// Skips entries past their bound, and grants turns from the head on. Returns the waits to wake.
    ///
    /// If entries are left, unclaimed turns past the bound of their wait end first, because their tasks may never
    /// be polled.
    #[must_use = "these wait"]
    pub(super) fn look(&mut self, now: Instant) -> Vec<SleeperId> {
        let mut woken = self.waiting.skip(now, None);
        if self.has_waiting() {
            self.take_back(now);
        }
        while let Some((key, kind)) = self.waiting.head().filter(|&(_, kind)| self.admits(kind)) {
            let until = self.waiting.head_until();
            self.waiting.remove(key);
            let begun = self.begin(kind);
            self.granted.push(Grant { key, begun, until });
            woken.push(key);
        }
        woken
    }

    /// Ends unclaimed turns past the bound of their wait.
    fn take_back(&mut self, now: Instant) {
        let is_late = |grant: &mut Grant| grant.until.is_some_and(|until| now >= until);
        let late: Vec<_> = self.granted.extract_if(.., is_late).collect();
        for grant in late {
            self.end(grant.begun.id);
        }
    }

    #[inline]
    fn admits(&self, kind: TurnKind) -> bool {
        match kind {
            TurnKind::Shared => self.exclusive.is_none(),
            TurnKind::Exclusive => self.running == 0,
        }
    }

    /// Returns the state of an entry; a granted turn belongs to the caller from now on.
    pub(super) fn claim(&mut self, key: SleeperId) -> Standing {
        if let Some(at) = self.granted.iter().position(|grant| grant.key == key) {
            return Standing::Granted(self.granted.swap_remove(at).begun);
        }
        let of_granted = self.granted.iter().filter_map(|grant| grant.until).min();
        let first_bound = |place| self.waiting.first_bound(place).into_iter().chain(of_granted).min();
        let waits = |place| Standing::Waits { look_at: first_bound(place) };
        self.waiting.place(key).map_or(Standing::Gone, waits)
    }

    /// Removes an entry from the queue and ends its turn, if one was granted. Call [`look`](Self::look) afterwards.
    pub(super) fn withdraw(&mut self, key: SleeperId) {
        if let Standing::Granted(begun) = self.claim(key) {
            self.end(begun.id);
        }
        self.waiting.remove(key);
    }

    /// True if other turns ran when the attempt began, run now, or have begun since.
    pub(super) fn has_contention(&self, seen: Seen) -> bool {
        let is_ours = seen.process == self.process;
        self.others(seen) > 0 || is_ours && (seen.beside || self.started != seen.started)
    }

    /// Number of other turns that run now.
    pub(super) fn others(&self, seen: Seen) -> usize {
        // In a child of `fork`, the turn around the attempt may be the parent's.
        self.running.saturating_sub(usize::from(seen.process == self.process))
    }

    /// Begins a measurement, unless one is running.
    pub(super) fn measure(&mut self) -> Option<SleeperId> {
        let begins = self.measuring.is_none();
        begins.then(|| *self.measuring.insert(SleeperId::new()))
    }

    pub(super) fn measured(&mut self, measurement: SleeperId) {
        self.measuring.take_if(|measuring| *measuring == measurement);
    }

    /// Marks a turn because a loop inside it gave way.
    pub(super) fn mark(&mut self, turn: TurnId) {
        if !self.is_marked(turn) {
            self.marked.push(turn);
        }
    }

    pub(super) fn is_marked(&self, turn: TurnId) -> bool {
        self.marked.contains(&turn)
    }

    /// Removes the mark of a turn whose attempt ends or is repeated.
    pub(super) fn unmark(&mut self, turn: TurnId) {
        self.marked.retain(|&marked| marked != turn);
    }

    /// Records a wait that lasted its full bound: calls do not wait for the device until `no_wait_until`, or until
    /// the turns that run now have ended.
    pub(super) fn waited_in_vain(&mut self, no_wait_until: Instant) {
        let before = self.vain.map(|vain| vain.no_wait_until);
        let no_wait_until = before.map_or(no_wait_until, |before| before.max(no_wait_until));
        let vain = Vain { no_wait_until, newest: self.started, left: self.running };
        self.vain = (self.running > 0).then_some(vain);
    }

    /// True if a turn is marked or a wait was in vain.
    pub(super) fn is_unusual(&self) -> bool {
        self.vain.is_some() || !self.marked.is_empty()
    }

    /// True if calls may wait for the device.
    pub(super) fn has_patience(&mut self, now: Instant) -> bool {
        self.vain = self.vain.filter(|vain| now < vain.no_wait_until);
        self.vain.is_none()
    }

    /// Returns the granted and unclaimed turn of an entry.
    #[cfg(test)]
    pub(super) fn granted(&self, key: SleeperId) -> Option<Admitted> {
        self.granted.iter().find(|grant| grant.key == key).map(|grant| grant.begun)
    }

    /// True if a wait was in vain while the turn ran.
    #[cfg(test)]
    pub(super) fn is_in_the_way(&self, turn: TurnId) -> bool {
        self.vain.is_some_and(|vain| turn.number <= vain.newest)
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let Self { waiting, granted, marked, exclusive, measuring, .. } = self;
        self.running == 0
            && waiting.is_empty()
            && granted.is_empty()
            && marked.is_empty()
            && exclusive.is_none()
            && measuring.is_none()
    }
}
