//! The storages of a device and their locations.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use toma_plan::residency::{Candidate, Next};

use super::counts::EvictedTally;
use super::evicted::{self, Source, evicted_message};
use crate::ffi::{self, DeviceId, Remembered, Rows, Use};
use crate::memory::Device;
use crate::notes::StorageNote;
use crate::offload::step::known_step::{UsedStorage, print_of};
use crate::offload::step::position::StepPosition;
use crate::offload::step::steps::Steps;

/// Location of a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    Resident,
    /// Being evicted: a thread copies it, and waits for no other.
    Evicting,
    /// Being fetched, for an operator that may itself wait for room, or ahead of it.
    Fetching {
        ahead: bool,
    },
    Evicted,
    /// Evicted, and not fetched before it is resumed.
    Parked,
}

/// State of a storage that may move.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) storage: Remembered,
    pub(crate) bytes: u64,
    pub(crate) location: Location,
    /// Number of operators and guards that need it where it is.
    pub(crate) pins: u32,
    /// True if it is never evicted, because the program keeps it or it is small.
    pub(crate) is_kept: bool,
    /// Copy of its bytes outside of the device, while it is resident and has not been written since.
    pub(crate) copy: Option<Arc<Source>>,
    /// Unique number, in the order in which storages came.
    pub(crate) serial: u64,
    pub(crate) last_use: u64,
    pub(crate) uses: u64,
    pub(crate) name: Option<Arc<str>>,
    /// Notes of its block when it was last evicted.
    pub(crate) note: StorageNote,
}

impl Entry {
    fn new(storage: Remembered, bytes: u64, serial: u64, now: u64) -> Self {
        Self {
            storage,
            bytes,
            location: Location::Resident,
            pins: 0,
            is_kept: false,
            copy: None,
            serial,
            last_use: now,
            uses: 0,
            name: None,
            note: StorageNote::default(),
        }
    }

    pub(crate) fn may_be_evicted(&self) -> bool {
        self.location == Location::Resident
            && !self.is_used()
            && self.bytes > 0
            && !self.is_kept
            && !self.storage.is_gone()
    }

    /// Returns true if operators or guards need it where it is.
    pub(crate) fn is_used(&self) -> bool {
        self.pins > 0 || self.storage.is_in_use()
    }

    /// Describes the storage in messages.
    pub(crate) fn words(&self) -> String {
        match &self.name {
            Some(name) => format!("{name} ({} bytes)", self.bytes),
            None => format!("a storage of {} bytes", self.bytes),
        }
    }
}

/// Hasher of storage ids. They are addresses, so a product mixes them and its upper bits select the bucket.
#[derive(Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("storages are numbers");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (number ^ number >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(26);
    }
}

/// Marks the number of a candidate that is in no known step.
const UNKNOWN: u64 = 1 << 40;

/// The storages of a device, for the life of the process. Managers come and go; storages that one has evicted, pinned
/// or parked are known to the next, and threads of both wait for the same moves.
#[derive(Debug)]
pub(crate) struct Books {
    pub(crate) device: Device,
    pub(crate) id: DeviceId,
    table: Mutex<Table>,
    pub(crate) changed: Condvar,
    pub(crate) evicted: Arc<EvictedTally>,
}

impl Books {
    pub(crate) fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            id: DeviceId::of(device.device()),
            table: Mutex::default(),
            changed: Condvar::new(),
            evicted: Arc::default(),
        }
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wait<'a>(&self, table: MutexGuard<'a, Table>) -> MutexGuard<'a, Table> {
        self.changed.wait(table).unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes access by address to evicted storages an error while no thread has entered, and otherwise allows it where
    /// their memory is still there. A thread that has entered may read it, because `VarStore::save` calls no operator
    /// first.
    pub(crate) fn update_access(&self) {
        let table = self.table();
        // Read under the lock, so that of two threads that enter and leave at once the later one has the last word.
        let refuses = !ffi::toma_offload_is_watched();
        // If an operator was to fail, it must not find the bytes after all and write to them.
        let is_meant = |entry: &&Entry| entry.location == Location::Evicted && (refuses || !entry.is_used());
        let evicted = table.entries.values().filter(is_meant);
        let refuse = |entry: &Entry| {
            let kept = entry.storage.keep()?;
            kept.refuse(refuses.then(|| evicted_message(&entry.words(), &self.device)).as_deref());
            Some(kept)
        };
        let kept: Vec<_> = evicted.filter_map(refuse).collect();
        drop(table);
        drop(kept);
    }
}

/// All storages that were used or adopted, by id.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) entries: HashMap<u64, Entry, BuildHasherDefault<Spread>>,
    /// The step that the program repeats.
    pub(crate) steps: Steps,
    /// The thread that resumes parked storages; others wait for it until all are on the device.
    pub(crate) resuming: Option<ThreadId>,
    /// Number of threads that wait until no storage is leaving or being read. New reads wait while it is above 0.
    pub(crate) awaiting: usize,
    /// Number of the last operator.
    pub(crate) now: u64,
    serials: u64,
    /// Number of entries beyond which the table is swept.
    sweeps_at: usize,
}

impl Table {
    /// Returns the entry of a storage, made if it is missing; `None` if the storage never moves.
    pub(crate) fn entry(&mut self, storage: &Use<'_>) -> Option<&mut Entry> {
        let moves = self.entries.get(&storage.id()).is_some_and(|entry| entry.location != Location::Resident);
        if !moves && !storage.may_move() {
            // It was given other memory, such as a file's.
            return None;
        }
        let (now, serials) = (self.now, &mut self.serials);
        let entry = self.entries.entry(storage.id()).or_insert_with(|| {
            *serials += 1;
            Entry::new(Remembered::new(storage), storage.bytes, *serials, now)
        });
        entry.bytes = storage.bytes;
        Some(entry)
    }

    /// Adds a storage that a dry run has found.
    pub(crate) fn found(&mut self, id: u64, storage: Remembered, bytes: u64) {
        let (now, serials) = (self.now, &mut self.serials);
        self.entries.entry(id).or_insert_with(|| {
            *serials += 1;
            Entry::new(storage, bytes, *serials, now)
        });
    }

    /// Looks up a storage by address, which may belong to another one by now. Enough for code that only ends a use.
    pub(crate) fn known(&mut self, storage: &Use<'_>) -> Option<&mut Entry> {
        self.entries.get_mut(&storage.id())
    }

    /// Pins a storage for an operator that begins, and returns its location.
    pub(crate) fn pin_use(&mut self, storage: &mut Use<'_>) -> Option<(UsedStorage, Location)> {
        let now = self.now;
        let entry = self.entry(storage)?;
        entry.pins += 1;
        entry.uses += 1;
        entry.last_use = now;
        let location = entry.location;
        storage.is_pinned = true;
        Some((UsedStorage { id: storage.id(), bytes: storage.bytes, writes: storage.writes }, location))
    }

    /// Lets an operator take rows of a table from where it is. Returns false if the table is not evicted.
    pub(crate) fn serve_rows(&mut self, storage: &mut Use<'_>) -> bool {
        let now = self.now;
        let entry = self.entry(storage).filter(|entry| entry.location == Location::Evicted);
        let Some((entry, kept)) = entry.and_then(|entry| entry.storage.keep().map(|kept| (entry, kept)))
        else {
            return false;
        };
        let Some(stand_in) = kept.stand_in() else { return false };
        storage.stay(Arc::clone(evicted::source_of(stand_in)) as Arc<dyn Rows>, &kept);
        entry.uses += 1;
        entry.last_use = now;
        true
    }

    /// Ends the use by an operator. Returns the copy that is no longer valid.
    pub(crate) fn ends(&mut self, storage: &mut Use<'_>) -> Option<Arc<Source>> {
        let entry = self.entries.get_mut(&storage.id()).filter(|_| storage.is_pinned)?;
        storage.is_pinned = false;
        entry.pins -= 1;
        entry.bytes = storage.bytes;
        let copy = if storage.writes { entry.copy.take() } else { None };
        if entry.pins == 0 && !storage.may_move() {
            self.entries.remove(&storage.id());
        }
        copy
    }

    /// Records a storage that an operator has made.
    pub(crate) fn record_made(&mut self, storage: &Use<'_>) -> Option<UsedStorage> {
        let now = self.now;
        let entry = self.entry(storage)?;
        entry.last_use = now;
        Some(UsedStorage { id: storage.id(), bytes: storage.bytes, writes: true })
    }

    /// Pins a storage for an operator of a thread that has not entered. Returns the copy that is no longer valid.
    pub(crate) fn pin_foreign_use(&mut self, storage: &mut Use<'_>) -> Option<Arc<Source>> {
        let entry = self.entries.get_mut(&storage.id())?;
        entry.pins += 1;
        storage.is_pinned = true;
        if storage.writes { entry.copy.take() } else { None }
    }

    /// Returns true if a thread is moving the storage.
    pub(crate) fn is_moving(&self, id: u64) -> bool {
        let entry = self.entries.get(&id);
        entry.is_some_and(|entry| matches!(entry.location, Location::Evicting | Location::Fetching { .. }))
    }

    /// Reports the next operator to the steps. Returns the bytes that it allocates while it runs; 0 if unknown.
    pub(crate) fn step_on(&mut self, name: &str, found: &[UsedStorage]) -> u64 {
        let entries = &self.entries;
        let is_gone = |id| entries.get(&id).is_none_or(|entry| entry.storage.is_gone());
        self.steps.begins(print_of(name, found), found, is_gone)
    }

    /// Storages that may be evicted, by id, and the current time: the position in the followed step if there is one.
    pub(crate) fn candidates(&self) -> (u64, Vec<(u64, Candidate)>) {
        let following = self.steps.following();
        let now = following.map_or(self.now, StepPosition::now);
        let candidate = |(&id, entry): (&u64, &Entry)| {
            let seen = following.and_then(|following| following.next_use(id));
            let (storage, next) = seen.unwrap_or((UNKNOWN | entry.serial, Next::Unknown));
            let last_use = now.saturating_sub(self.now - entry.last_use);
            (id, Candidate { storage, bytes: entry.bytes, last_use, next, has_copy: entry.copy.is_some() })
        };
        let mut candidates: Vec<_> =
            self.entries.iter().filter(|(_, entry)| entry.may_be_evicted()).map(candidate).collect();
        candidates.sort_unstable_by_key(|(_, candidate)| candidate.storage);
        (now, candidates)
    }

    /// Removes entries of dead storages from time to time. The caller drops them without the lock.
    pub(crate) fn swept(&mut self) -> Vec<Entry> {
        if self.now.is_multiple_of(64) { self.sweep() } else { self.swept_if_many() }
    }

    /// Removes entries of dead storages once there are twice as many entries as after the last time.
    pub(crate) fn swept_if_many(&mut self) -> Vec<Entry> {
        if self.entries.len() > self.sweeps_at { self.sweep() } else { Vec::new() }
    }

    pub(crate) fn sweep(&mut self) -> Vec<Entry> {
        let is_gone = |_: &u64, entry: &mut Entry| entry.pins == 0 && entry.storage.is_gone();
        let gone = self.entries.extract_if(is_gone).map(|(_, entry)| entry).collect();
        self.sweeps_at = 2 * self.entries.len() + 64;
        gone
    }
}
