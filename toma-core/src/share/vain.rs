//! What waits in vain have cost on each device, for whoever would wait next for the same attempts: a batch
//! is a call per step, and each would lose as much as the one before it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::hub::Hub;
use super::seat::Seat;
use super::slots::{Device, Node};
use crate::engine::turns::Lost;

/// Devices in the ledger: nobody looks there while there are none.
static KNOWN: AtomicUsize = AtomicUsize::new(0);
static LEDGER: Mutex<BTreeMap<Device, Account>> = Mutex::new(BTreeMap::new());

/// It holds as long as one of those runs that were in the way. Others may end soon, and then waiting for
/// them is worth while.
#[derive(Debug, Default)]
struct Account {
    lost: Lost,
    blockers: Vec<Node>,
}

impl Account {
    /// Keeps only those that still run; false when there are none.
    fn is_valid(&mut self, hub: &Hub) -> bool {
        self.blockers.retain(|&blocker| hub.device_of(blocker).is_some());
        !self.blockers.is_empty()
    }
}

fn ledger() -> MutexGuard<'static, BTreeMap<Device, Account>> {
    LEDGER.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seat {
    /// Whether somebody may wait for those who have let others wait in vain: if they have gone, or what was
    /// lost is a small share of what has passed. The clock is read only where anything was lost.
    #[inline]
    pub(crate) fn has_patience(&self, now: impl FnOnce() -> Instant) -> bool {
        KNOWN.load(Relaxed) == 0 || self.looks_up(now)
    }

    #[cold]
    fn looks_up(&self, now: impl FnOnce() -> Instant) -> bool {
        let mut ledger = ledger();
        ledger.retain(|_, account| account.is_valid(self.hub));
        KNOWN.store(ledger.len(), Relaxed);
        let Some(account) = ledger.get(&self.device) else { return true };
        // Those around this one are in its way no more than before.
        let in_the_way = |holder| account.blockers.contains(&holder);
        !self.hub.holders(self.slot, self.device).any(in_the_way) || account.lost.is_little(now)
    }

    /// A wait of so long, which began at `since`, was in vain.
    #[cold]
    pub(crate) fn waited_in_vain(&self, since: Instant, long: Duration) {
        let mut ledger = ledger();
        let account = ledger.entry(self.device).or_default();
        if !account.is_valid(self.hub) {
            *account = Account::default();
        }
        account.lost.add(since, long);
        for blocker in self.hub.holders(self.slot, self.device) {
            if !account.blockers.contains(&blocker) {
                account.blockers.push(blocker);
            }
        }
        KNOWN.store(ledger.len(), Relaxed);
    }
}
