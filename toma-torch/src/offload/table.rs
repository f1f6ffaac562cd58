//! The storages of a device, and where each of them is.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use toma_plan::residency::{Candidate, Next};

use super::away::{self, Source, away_words};
use super::following::Following;
use super::known::{Found, print_of};
use super::places::Places;
use super::steps::Steps;
use crate::ffi::{DeviceId, Remembered, Rows, Use};
use crate::memory::Device;
use crate::notes::Story;

/// Where a storage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Resident,
    /// On its way out: a thread copies it, and waits for no other.
    Leaving,
    /// On its way back. For an operator that may itself wait for room, or ahead of it.
    Coming {
        ahead: bool,
    },
    Away,
    /// Away, and not to come back before it is resumed.
    Parked,
}

/// What is known of a storage that may move.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) storage: Remembered,
    pub(crate) bytes: u64,
    pub(crate) place: Place,
    /// Operators and guards that need it where it is.
    pub(crate) pins: u32,
    /// Of an eviction's `keep`.
    pub(crate) is_kept: bool,
    /// The bytes as they are outside, where it is resident and has not been written since.
    pub(crate) copy: Option<Arc<Source>>,
    /// In the order in which they came.
    pub(crate) serial: u64,
    pub(crate) last_use: u64,
    pub(crate) uses: u64,
    pub(crate) name: Option<Arc<str>>,
    /// As it was when it left last.
    pub(crate) story: Story,
}

impl Entry {
    fn new(storage: Remembered, bytes: u64, serial: u64, now: u64) -> Self {
        Self {
            storage,
            bytes,
            place: Place::Resident,
            pins: 0,
            is_kept: false,
            copy: None,
            serial,
            last_use: now,
            uses: 0,
            name: None,
            story: Story::default(),
        }
    }

    pub(crate) fn may_leave(&self) -> bool {
        self.place == Place::Resident
            && !self.is_used()
            && self.bytes > 0
            && !self.is_kept
            && !self.storage.is_gone()
    }

    /// Whether operators or guards need it where it is.
    pub(crate) fn is_used(&self) -> bool {
        self.pins > 0 || self.storage.is_in_use()
    }

    /// For messages.
    pub(crate) fn words(&self) -> String {
        match &self.name {
            Some(name) => format!("{name} ({} bytes)", self.bytes),
            None => format!("a storage of {} bytes", self.bytes),
        }
    }
}

/// Numbers are addresses, which are spread by their upper bits.
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

/// Numbers of storages that no known step has.
const UNKNOWN: u64 = 1 << 40;

/// The storages of a device, for the life of the process. Managers come and go; what one has evicted, pinned or parked
/// is known to the next, and threads of both wait for the same moves.
#[derive(Debug)]
pub(crate) struct Books {
    pub(crate) device: Device,
    pub(crate) id: DeviceId,
    table: Mutex<Table>,
    pub(crate) changed: Condvar,
    pub(crate) places: Arc<Places>,
}

impl Books {
    pub(crate) fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            id: DeviceId::of(device.device()),
            table: Mutex::default(),
            changed: Condvar::new(),
            places: Arc::default(),
        }
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wait<'a>(&self, table: MutexGuard<'a, Table>) -> MutexGuard<'a, Table> {
        self.changed.wait(table).unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets whether access by address to an evicted storage is an error, where its memory is there nevertheless. A thread
    /// that has entered may read it: `VarStore::save` asks no operator first.
    pub(crate) fn refuse(&self, refuses: bool) {
        let table = self.table();
        // An operator that was to fail must not find the bytes after all, and write to them.
        let is_meant = |entry: &&Entry| entry.place == Place::Away && (refuses || !entry.is_used());
        let away = table.entries.values().filter(is_meant);
        let refuse = |entry: &Entry| {
            let kept = entry.storage.keep()?;
            kept.refuse(refuses.then(|| away_words(&entry.words(), &self.device)).as_deref());
            Some(kept)
        };
        let kept: Vec<_> = away.filter_map(refuse).collect();
        drop(table);
        drop(kept);
    }
}

/// Every storage that was used or adopted, by its number.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) entries: HashMap<u64, Entry, BuildHasherDefault<Spread>>,
    /// What the program repeats.
    pub(crate) steps: Steps,
    /// The thread that brings back what was parked: until all of it is there, others wait for it.
    pub(crate) resuming: Option<ThreadId>,
    /// The number of the last operator.
    pub(crate) now: u64,
    serials: u64,
    /// How many entries are there before those that are gone are looked for.
    sweeps_at: usize,
}

impl Table {
    /// The entry of a storage; none for one that never moves.
    pub(crate) fn entry(&mut self, storage: &Use<'_>) -> Option<&mut Entry> {
        let moves = self.entries.get(&storage.id()).is_some_and(|entry| entry.place != Place::Resident);
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

    /// A storage that a dry run has found.
    pub(crate) fn found(&mut self, id: u64, storage: Remembered, bytes: u64) {
        let (now, serials) = (self.now, &mut self.serials);
        self.entries.entry(id).or_insert_with(|| {
            *serials += 1;
            Entry::new(storage, bytes, *serials, now)
        });
    }

    /// The same of one that may have become another's memory, for what only ends.
    pub(crate) fn known(&mut self, storage: &Use<'_>) -> Option<&mut Entry> {
        self.entries.get_mut(&storage.id())
    }

    /// An operator begins to use a storage, which is there or not.
    pub(crate) fn begins(&mut self, storage: &mut Use<'_>) -> Option<(Found, Place)> {
        let now = self.now;
        let entry = self.entry(storage)?;
        entry.pins += 1;
        entry.uses += 1;
        entry.last_use = now;
        let place = entry.place;
        storage.is_pinned = true;
        Some((Found { id: storage.id(), bytes: storage.bytes, writes: storage.writes }, place))
    }

    /// An operator takes rows of a table, which may stay where it is; whether it does.
    pub(crate) fn stays(&mut self, storage: &mut Use<'_>) -> bool {
        let now = self.now;
        let entry = self.entry(storage).filter(|entry| entry.place == Place::Away);
        let Some((entry, kept)) = entry.and_then(|entry| entry.storage.keep().map(|kept| (entry, kept)))
        else {
            return false;
        };
        let Some(away) = kept.away() else { return false };
        storage.stay(Arc::clone(away::source_of(away)) as Arc<dyn Rows>, &kept);
        entry.uses += 1;
        entry.last_use = now;
        true
    }

    /// It has ended. Returns the copy that is not valid any more.
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

    /// An operator has made a storage.
    pub(crate) fn is_made(&mut self, storage: &Use<'_>) -> Option<Found> {
        let now = self.now;
        let entry = self.entry(storage)?;
        entry.last_use = now;
        Some(Found { id: storage.id(), bytes: storage.bytes, writes: true })
    }

    /// An operator of a thread that has not entered begins to use a storage. Returns the copy that is not valid any more.
    pub(crate) fn visits(&mut self, storage: &mut Use<'_>) -> Option<Arc<Source>> {
        let entry = self.entries.get_mut(&storage.id())?;
        entry.pins += 1;
        storage.is_pinned = true;
        if storage.writes { entry.copy.take() } else { None }
    }

    /// Whether another thread moves it now.
    pub(crate) fn is_moving(&self, id: u64) -> bool {
        let entry = self.entries.get(&id);
        entry.is_some_and(|entry| matches!(entry.place, Place::Leaving | Place::Coming { .. }))
    }

    /// The next operator of what is repeated; returns what it allocates beyond its start, where that is known.
    pub(crate) fn step_on(&mut self, name: &str, found: &[Found]) -> u64 {
        let entries = &self.entries;
        let is_gone = |id| entries.get(&id).is_none_or(|entry| entry.storage.is_gone());
        self.steps.begins(print_of(name, found), found, is_gone)
    }

    /// What may leave, each with its number in the table; and the time, which is that of a step that is known.
    pub(crate) fn candidates(&self) -> (u64, Vec<(u64, Candidate)>) {
        let following = self.steps.following();
        let now = following.map_or(self.now, Following::now);
        let candidate = |(&id, entry): (&u64, &Entry)| {
            let seen = following.and_then(|following| following.seen(id));
            let (storage, next) = seen.unwrap_or((UNKNOWN | entry.serial, Next::Unknown));
            let last_use = now.saturating_sub(self.now - entry.last_use);
            (id, Candidate { storage, bytes: entry.bytes, last_use, next, has_copy: entry.copy.is_some() })
        };
        let mut candidates: Vec<_> =
            self.entries.iter().filter(|(_, entry)| entry.may_leave()).map(candidate).collect();
        candidates.sort_unstable_by_key(|(_, candidate)| candidate.storage);
        (now, candidates)
    }

    /// Forgets what is gone, from time to time; what they held is dropped by the caller.
    pub(crate) fn swept(&mut self) -> Vec<Entry> {
        if self.now.is_multiple_of(64) || self.entries.len() > self.sweeps_at {
            self.sweep()
        } else {
            Vec::new()
        }
    }

    pub(crate) fn sweep(&mut self) -> Vec<Entry> {
        let is_gone = |_: &u64, entry: &mut Entry| entry.pins == 0 && entry.storage.is_gone();
        let gone = self.entries.extract_if(is_gone).map(|(_, entry)| entry).collect();
        self.sweeps_at = 2 * self.entries.len() + 64;
        gone
    }
}
