//! Parks and resumes storages, all of them or none.

use std::ffi::CString;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::thread;

use toma_core::memory::MemorySource as _;
use toma_trace::Size;

use super::callbacks::{Event, Moving};
use super::counts::add;
use super::evicted::{self, Source, evicted_message};
use super::operators;
use super::registry;
use super::state::ManagerState;
use super::table::{Entry, Location, Table};
use crate::error::{Error, ErrorKind};
use crate::ffi::{self, DeviceMemory, StorageRef};
use crate::notes::StorageNote;

/// Reference to a parked storage that does not keep it alive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParkedStorage {
    pub(crate) id: u64,
    /// Unlike ids of storages, serials are never used again.
    pub(crate) serial: u64,
    /// True if the storage was evicted before, and stays evicted when it is resumed.
    pub(crate) was_evicted: bool,
}

/// Memory that a device still holds while everything that can be evicted is parked.
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_torch::{Device, cpu, offload::Manager};
///
/// let manager = Manager::new(&Device::new(tch::Device::Cpu)).budget(cpu::allocated_bytes() + (8 << 20));
/// let _entered = manager.enter()?;
/// let _small = Tensor::ones([8], (Kind::Float, tch::Device::Cpu));
/// println!("{}", manager.park()?.stays()); // storages that are too small to move
/// # Ok::<(), toma_torch::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stays {
    /// Known storages with fewer bytes than the manager moves.
    pub small: u64,
    /// Bytes of these storages.
    pub small_bytes: u64,
    /// Other bytes that the allocator has in use: tensors that no operator of an entered thread has used, and
    /// workspaces. Memory outside of the allocator, such as a CUDA context, stays as well, and is not counted.
    pub other_bytes: u64,
}

impl fmt::Display for Stays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [small, other] = [self.small_bytes, self.other_bytes].map(Size::of);
        write!(f, "{} small storages of {small} stay, and {other} that the manager does not know", self.small)
    }
}

/// A storage that is marked as moving, so that no other thread moves it.
pub(crate) struct Marked {
    pub(crate) known: ParkedStorage,
    kept: StorageRef,
    pub(crate) bytes: u64,
    /// Valid copy of its bytes outside of the device, if there is one already.
    copy: Option<Arc<Source>>,
    has_copy: bool,
    name: Option<Arc<str>>,
    note: StorageNote,
    /// Message of the error when the storage is accessed after the move.
    words: CString,
}

impl Marked {
    fn name(&self) -> Option<String> {
        self.name.as_deref().map(str::to_owned)
    }
}

impl ManagerState {
    /// Returns true if a storage is large enough to be parked, and live.
    fn is_large(&self, entry: &Entry) -> bool {
        entry.bytes > 0 && entry.bytes >= self.min_bytes.load(Ordering::Relaxed) && !entry.storage.is_gone()
    }

    /// Marks all storages that can be parked as moving at once, so that no operator begins with only some of them.
    pub(crate) fn mark_all(&self) -> Result<Vec<Marked>, Error> {
        let moves = |entry: &Entry| matches!(entry.location, Location::Evicting | Location::Fetching { .. });
        let mut table = self.table();
        loop {
            let used = table.entries.values().filter(|entry| entry.is_used() && self.is_large(entry));
            let used: Vec<_> = used.map(Entry::words).collect();
            if !used.is_empty() {
                return Err(self.in_use(&used));
            }
            if !table.entries.values().any(moves) {
                break;
            }
            table = self.wait(table);
        }
        let mut marked = Vec::new();
        for (&id, entry) in &mut table.entries {
            if entry.location == Location::Parked || !self.is_large(entry) {
                continue;
            }
            let known =
                ParkedStorage { id, serial: entry.serial, was_evicted: entry.location == Location::Evicted };
            marked.extend(self.mark(known, entry, Location::Evicting));
        }
        drop(table);
        marked.sort_by_key(|one| one.known.serial);
        Ok(marked)
    }

    /// Marks a storage as moving; `None` if it is gone.
    fn mark(&self, known: ParkedStorage, entry: &mut Entry, moves: Location) -> Option<Marked> {
        let kept = entry.storage.keep()?;
        entry.location = moves;
        let words = evicted_message(&entry.words(), &self.device);
        let (bytes, copy, name) = (entry.bytes, entry.copy.take(), entry.name.clone());
        let note = entry.note.clone();
        Some(Marked { known, kept, bytes, has_copy: copy.is_some(), copy, name, note, words })
    }

    fn in_use(&self, used: &[String]) -> Error {
        let message = format!(
            "park: {} of {} are in use or pinned, and nothing was parked: {}",
            used.len(),
            self.device.name(),
            used.join(", ")
        );
        Error::new(ErrorKind::Unsupported, message)
    }

    /// Copies all marked storages before the first loses its memory, so that a failure has nothing to fetch.
    pub(crate) fn evict_all(&self, mut marked: Vec<Marked>) -> Result<(), Error> {
        match self.copies_of(&mut marked) {
            Ok(copies) => {
                self.install_stand_ins(&marked, copies);
                Ok(())
            }
            Err(failed) => {
                self.unmark_all(marked);
                Err(Error::new(failed.kind(), format!("{failed}; nothing was parked")))
            }
        }
    }

    /// The copy that stands for the memory of each storage; none for evicted ones. All are made before any memory is
    /// freed, so that a failure leaves nothing half parked.
    fn copies_of(&self, marked: &mut [Marked]) -> Result<Vec<Option<Arc<Source>>>, Error> {
        let mut copies = Vec::new();
        for one in &*marked {
            let copies_now = !one.known.was_evicted && one.copy.is_none();
            copies.push(copies_now.then(|| self.copied(&one.kept, one.bytes)).transpose()?);
        }
        Ok(marked.iter_mut().zip(copies).map(|(one, copied)| copied.or_else(|| one.copy.take())).collect())
    }

    fn install_stand_ins(&self, marked: &[Marked], copies: Vec<Option<Arc<Source>>>) {
        let stand_in = |(one, source): (&Marked, Option<Arc<Source>>)| {
            let source = source?;
            Some((self.memory_stays(&source), Box::new(evicted::stand_in(one.bytes, source, &self.evicted))))
        };
        let stand_ins: Vec<_> = marked.iter().zip(copies).map(stand_in).collect();
        let mut freed = Vec::new();
        let mut table = self.table();
        for (one, stand_in) in marked.iter().zip(stand_ins) {
            if let Some(entry) = table.entries.get_mut(&one.known.id) {
                entry.location = Location::Parked;
            }
            match stand_in {
                Some((stays, stand_in)) => {
                    freed.push((one, one.kept.take(stand_in, stays, Some(&one.words))));
                }
                None => one.kept.refuse(Some(&one.words)),
            }
        }
        self.books.changed.notify_all();
        drop(table);
        self.free_parked(freed);
        for one in marked.iter().filter(|one| !one.known.was_evicted) {
            add(&self.counts.offloads, 1);
            let (name, bytes, is_copied) = (one.name(), one.bytes, !one.has_copy);
            self.notify(|| Event::Offloaded { name, bytes, is_copied });
        }
    }

    /// Frees the device memory of parked storages.
    fn free_parked(&self, freed: Vec<(&Marked, DeviceMemory)>) {
        let notes =
            freed.into_iter().map(|(one, memory)| (one.known.id, StorageNote::on_eviction(|| drop(memory))));
        let notes: Vec<_> = notes.collect();
        let mut table = self.table();
        for (id, note) in notes {
            if let Some(entry) = table.entries.get_mut(&id) {
                entry.note = note;
            }
        }
    }

    fn unmark_all(&self, marked: Vec<Marked>) {
        let mut kept = Vec::new();
        let mut table = self.table();
        for one in marked {
            if let Some(entry) = table.entries.get_mut(&one.known.id) {
                entry.location = if one.known.was_evicted { Location::Evicted } else { Location::Resident };
                entry.copy = one.copy;
            }
            kept.push(one.kept);
        }
        self.books.changed.notify_all();
        drop(table);
        drop(kept);
    }

    pub(crate) fn stays(&self) -> Stays {
        let (small, small_bytes) = {
            let table = self.table();
            let here = table.entries.values().filter(|entry| {
                entry.location == Location::Resident && !entry.storage.is_gone() && !self.is_large(entry)
            });
            here.fold((0, 0), |(count, bytes), entry| (count + 1, bytes + entry.bytes))
        };
        Stays { small, small_bytes, other_bytes: self.allocated_bytes().saturating_sub(small_bytes) }
    }

    /// Returns the table once each storage that is leaving its place or being read there has ended that.
    pub(crate) fn still(&self) -> MutexGuard<'_, Table> {
        let mut table = self.table();
        let moves = |entry: &Entry| entry.location == Location::Evicting;
        let moving = table.entries.iter().filter(|(_, entry)| moves(entry));
        let moving: Vec<_> = moving.map(|(id, entry)| (*id, entry.serial)).collect();
        let still_moves = |table: &Table, (id, serial): &(u64, u64)| {
            table.entries.get(id).is_some_and(|entry| entry.serial == *serial && moves(entry))
        };
        table.awaiting += 1;
        while moving.iter().any(|known| still_moves(&table, known)) {
            table = self.wait(table);
        }
        table.awaiting -= 1;
        self.books.changed.notify_all();
        table
    }

    /// Marks those storages that are live and still parked as being fetched, so that no other thread moves them.
    pub(crate) fn mark_parked(&self, storages: &[ParkedStorage]) -> Vec<Marked> {
        let mut table = self.still();
        table.resuming = Some(thread::current().id());
        let marked = storages.iter().filter_map(|&known| {
            let entry = table.entries.get_mut(&known.id)?;
            let is_parked = entry.serial == known.serial && entry.location == Location::Parked;
            is_parked.then(|| self.mark(known, entry, Location::Fetching { ahead: false })).flatten()
        });
        marked.collect()
    }

    /// Resumes all of these storages or none.
    pub(crate) fn fetch_all_parked(&self, storages: &[ParkedStorage]) -> Result<(), Error> {
        registry::check_process()?;
        operators::end_lent_pins();
        let _moving = Moving::begin_aside();
        let (evicted, coming): (Vec<_>, Vec<_>) =
            self.mark_parked(storages).into_iter().partition(|one| one.known.was_evicted);
        match self.memories(&coming) {
            Ok(memories) => {
                self.install_memory(&coming, memories);
                self.mark_evicted(evicted);
                Ok(())
            }
            Err(failed) => {
                self.stay_off(evicted.into_iter().chain(coming).collect(), Location::Parked, |_, _| {});
                Err(failed)
            }
        }
    }

    fn memories(&self, coming: &[Marked]) -> Result<Vec<DeviceMemory>, Error> {
        let bytes = coming.iter().map(|one| one.bytes).sum();
        let lacking = self.lacking_bytes(bytes);
        if lacking > 0 {
            self.make_room(lacking);
        }
        let lacking = self.lacking_bytes(bytes);
        if lacking > 0 {
            let (name, limit) = (self.device.name(), self.limit_bytes());
            let message = format!(
                "{name} out of memory: to resume {bytes} bytes takes {lacking} more than the budget of {limit}"
            );
            return Err(Error::new(ErrorKind::OutOfMemory, message));
        }
        coming.iter().map(|one| self.filled(&one.kept, one.bytes, &one.note, false)).collect()
    }

    fn install_memory(&self, coming: &[Marked], memories: Vec<DeviceMemory>) {
        let mut before = Vec::new();
        let mut table = self.table();
        for (one, memory) in coming.iter().zip(memories) {
            let is_newer = memory.is_newer;
            let mut source = one.kept.give(memory).map(|stand_in| evicted::into_source(*stand_in));
            if let Some(entry) = table.entries.get_mut(&one.known.id) {
                entry.location = Location::Resident;
                entry.copy = source.take_if(|_| !is_newer);
            }
            before.push(source);
        }
        table.resuming = None;
        self.books.changed.notify_all();
        drop(table);
        drop(before);
        for one in coming {
            add(&self.counts.fetches, 1);
            add(&self.counts.bytes_in, one.bytes);
            self.notify(|| Event::Fetched { name: one.name(), bytes: one.bytes, is_ahead: true });
        }
    }

    /// Turns marked storages into ordinary evicted ones.
    pub(crate) fn mark_evicted(&self, marked: Vec<Marked>) {
        self.stay_off(marked, Location::Evicted, |one, entry| {
            let is_free = ffi::toma_offload_is_watched() && entry.is_some_and(|entry| !entry.is_used());
            one.kept.refuse((!is_free).then_some(&one.words));
        });
    }

    /// Ends the resuming of storages that stay off the device. `before` is called for each before its location is set.
    fn stay_off(&self, marked: Vec<Marked>, location: Location, before: impl Fn(&Marked, Option<&Entry>)) {
        let mut table = self.table();
        for one in &marked {
            let entry = table.entries.get_mut(&one.known.id);
            before(one, entry.as_deref());
            if let Some(entry) = entry {
                entry.location = location;
            }
        }
        table.resuming = None;
        self.books.changed.notify_all();
        drop(table);
        drop(marked);
    }
}
