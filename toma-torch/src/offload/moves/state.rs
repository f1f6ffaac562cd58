//! State of a manager, and the functions that evict and fetch its storages.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use toma_plan::residency::{Eviction, Flow};

use super::callbacks::{Callbacks, Event, Moving};
use super::counts::{Counts, EvictedTally, add, timed};
use super::evicted::{self, Source, evicted_message, parked_message};
use super::host::HostPool;
use super::link::Link;
use super::table::{Books, Location, Table};
use crate::error::{Error, ErrorKind};
use crate::ffi::{self, Aside, DeviceId, DeviceMemory, StorageRef};
use crate::memory::{AllocatorLimit, Device, cpu};
use crate::notes::StorageNote;

/// State of a manager, shared by all threads that have entered it.
///
/// Under the lock of the table nothing is allocated, copied or freed on a device or for evicted storages, and no user
/// code runs: a thread that moves a storage marks it and releases the lock, and others wait for the mark to end.
pub(crate) struct ManagerState {
    pub(crate) device: Device,
    pub(crate) id: DeviceId,
    /// Belongs to the device, and so is shared by all its managers.
    pub(crate) books: Arc<Books>,
    pub(crate) evicted: Arc<EvictedTally>,
    pub(crate) host: Arc<HostPool>,
    /// Has its own lock, because it is user code.
    pub(crate) eviction: Mutex<Box<dyn Eviction>>,
    /// True if the eviction policy is requested after each operator.
    is_eager: AtomicBool,
    /// True if rows are gathered where a table is.
    pub(crate) gathers_outside: AtomicBool,
    limit: Mutex<Option<Limit>>,
    limit_bytes: AtomicU64,
    pub(crate) min_bytes: AtomicU64,
    pub(crate) counts: Counts,
    pub(crate) inwards: Link<Self>,
    pub(crate) outwards: Link<Self>,
    /// Set once, before anything is reported.
    pub(crate) callbacks: OnceLock<Callbacks>,
    /// True if nothing is evicted before a loop has run out of memory.
    pub(crate) is_patient: AtomicBool,
    pub(crate) has_warned: AtomicBool,
}

/// How the limit on the bytes of the device is enforced.
pub(crate) enum Limit {
    /// The allocator refuses more, where it can.
    Hard(#[expect(dead_code, reason = "it holds as long as it lives")] AllocatorLimit),
    /// Only evictions respect it.
    Soft,
}

impl fmt::Debug for ManagerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerState")
            .field("device", &self.device)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl ManagerState {
    pub(crate) fn new(device: &Device, books: Arc<Books>) -> Arc<Self> {
        Arc::new(Self {
            device: device.clone(),
            id: DeviceId::of(device.device()),
            evicted: Arc::clone(&books.evicted),
            books,
            host: HostPool::by_default(device.device()),
            eviction: Mutex::new(Box::new(Flow::default())),
            is_eager: AtomicBool::new(false),
            gathers_outside: AtomicBool::new(true),
            limit: Mutex::default(),
            limit_bytes: AtomicU64::new(u64::MAX),
            min_bytes: AtomicU64::new(crate::offload::MIN_BYTES),
            counts: Counts::default(),
            inwards: Link::new("toma: fetch", |shared, id| drop(shared.fetch(id, true))),
            outwards: Link::new("toma: offload", |shared, id| drop(shared.offload(id, shared.table()))),
            callbacks: OnceLock::new(),
            is_patient: AtomicBool::new(false),
            has_warned: AtomicBool::new(false),
        })
    }

    pub(crate) fn set_eviction(&self, eviction: Box<dyn Eviction>) {
        self.is_eager.store(eviction.is_eager(), Ordering::Relaxed);
        *self.eviction.lock().unwrap_or_else(PoisonError::into_inner) = eviction;
    }

    pub(crate) fn is_eager(&self) -> bool {
        self.is_eager.load(Ordering::Relaxed)
    }

    pub(crate) fn set_budget(&self, bytes: u64) {
        self.set_limit(Limit::Hard(AllocatorLimit::new(self.device.device(), bytes)), bytes);
    }

    pub(crate) fn set_limit(&self, limit: Limit, bytes: u64) {
        *self.limit.lock().unwrap_or_else(PoisonError::into_inner) = Some(limit);
        self.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn has_limit(&self) -> bool {
        self.limit.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        self.books.table()
    }

    pub(crate) fn wait<'a>(&self, table: MutexGuard<'a, Table>) -> MutexGuard<'a, Table> {
        self.books.wait(table)
    }

    /// Called when this becomes the device's only manager. Ends the steps and `keep` flags of earlier managers;
    /// operators may fetch the storages that those have parked.
    pub(crate) fn takes_over(&self) {
        let min_bytes = self.min_bytes.load(Ordering::Relaxed);
        let mut table = self.table();
        for entry in table.entries.values_mut() {
            entry.is_kept = entry.bytes < min_bytes;
            if entry.location == Location::Parked {
                entry.location = Location::Evicted;
            }
        }
        let learned = std::mem::take(&mut table.steps);
        drop(table);
        drop(learned);
    }

    /// Sets the location of a storage, and wakes waiting threads.
    fn set_location(&self, id: u64, location: Location) -> MutexGuard<'_, Table> {
        let mut table = self.table();
        if let Some(entry) = table.entries.get_mut(&id) {
            entry.location = location;
        }
        self.books.changed.notify_all();
        table
    }

    /// Copies the bytes of a storage from where they are.
    pub(crate) fn read(&self, id: u64, out: &mut [u8]) -> Result<(), Error> {
        let (kept, location) = self.held_still(id).ok_or_else(|| unreadable(out.len(), 0))?;
        let copied = match kept.stand_in().filter(|_| kept.block().is_null()) {
            Some(stand_in) if stand_in.bytes == out.len() as u64 => {
                evicted::source_of(stand_in).bytes().map(|bytes| out.copy_from_slice(&bytes))
            }
            Some(stand_in) => Err(unreadable(out.len(), stand_in.bytes)),
            None => kept.read(out),
        };
        drop(self.set_location(id, location));
        copied
    }

    /// Marks a storage as moving, so that no other thread moves it; returns its location.
    fn held_still(&self, id: u64) -> Option<(StorageRef, Location)> {
        let mut table = self.table();
        loop {
            let is_first = table.awaiting == 0;
            let entry = table.entries.get_mut(&id)?;
            let is_still =
                matches!(entry.location, Location::Resident | Location::Evicted | Location::Parked);
            if is_first && is_still {
                let kept = entry.storage.keep()?;
                return Some((kept, std::mem::replace(&mut entry.location, Location::Evicting)));
            }
            table = self.wait(table);
        }
    }

    /// Drops the copies of these storages, which are no longer valid.
    pub(crate) fn written(&self, ids: &[u64]) {
        let mut table = self.table();
        let copies: Vec<_> = ids.iter().filter_map(|id| table.entries.get_mut(id)?.copy.take()).collect();
        drop(table);
        drop(copies);
    }

    /// Returns the current limit, including a `cpu::Budget` that was set elsewhere.
    pub(crate) fn limit_bytes(&self) -> u64 {
        let own = self.limit_bytes.load(Ordering::Relaxed);
        let is_host = self.device.device() == tch::Device::Cpu;
        own.min(is_host.then(cpu::Budget::current).flatten().unwrap_or(u64::MAX))
    }

    pub(crate) fn allocated_bytes(&self) -> u64 {
        if self.device.device() == tch::Device::Cpu {
            return cpu::allocated_bytes();
        }
        self.device.stats().map_or(0, |stats| stats.allocated_bytes)
    }

    /// Bytes by which the limit would be exceeded after allocating `more` bytes.
    pub(crate) fn lacking_bytes(&self, more: u64) -> u64 {
        match self.limit_bytes() {
            u64::MAX => 0,
            limit => self.allocated_bytes().saturating_add(more).saturating_sub(limit),
        }
    }

    /// Evicts a storage. Returns its bytes, or 0 if it stays.
    pub(crate) fn offload(&self, id: u64, table: MutexGuard<'_, Table>) -> Result<u64, Error> {
        let _moving = Moving::begin_aside();
        let Some((kept, bytes, copy)) = Self::begin_eviction(id, table) else { return Ok(0) };
        let is_copied = copy.is_none();
        let source = match copy {
            Some(source) => Ok(source),
            None => self.copied(&kept, bytes),
        };
        let source = match source {
            Ok(source) => source,
            Err(failed) => {
                drop(self.set_location(id, Location::Resident));
                return Err(failed);
            }
        };
        let stays = self.memory_stays(&source);
        let stand_in = Box::new(evicted::stand_in(bytes, source, &self.evicted));
        let mut table = self.table();
        let entry = table.entries.get_mut(&id).expect("it is on its way out");
        let name = entry.name.clone();
        let words = (!stays || !ffi::toma_offload_is_watched())
            .then(|| evicted_message(&entry.words(), &self.device));
        let memory = kept.take(stand_in, stays, words.as_deref());
        drop(table);
        // The memory is freed before waiting threads are notified.
        let note = StorageNote::on_eviction(|| drop(memory));
        let mut table = self.set_location(id, Location::Evicted);
        if let Some(entry) = table.entries.get_mut(&id) {
            entry.note = note;
        }
        drop(table);
        drop(kept);
        add(&self.counts.offloads, 1);
        self.notify(|| Event::Offloaded { name: name.as_deref().map(str::to_owned), bytes, is_copied });
        Ok(bytes)
    }

    /// Returns true if the memory of an evicted storage stays until the storage ends, though it is counted as freed.
    /// CPU memory may be read by its address without notice. For bytes of a file it would be occupied for good.
    pub(crate) fn memory_stays(&self, source: &Source) -> bool {
        self.device.device() == tch::Device::Cpu && matches!(source, Source::Host(_))
    }

    fn begin_eviction(
        id: u64,
        mut table: MutexGuard<'_, Table>,
    ) -> Option<(StorageRef, u64, Option<Arc<Source>>)> {
        let entry = table.entries.get_mut(&id).filter(|entry| entry.may_be_evicted())?;
        let kept = entry.storage.keep()?;
        entry.location = Location::Evicting;
        table.steps.is_wanted = true;
        let entry = table.entries.get_mut(&id)?;
        Some((kept, entry.bytes, entry.copy.take()))
    }

    pub(crate) fn copied(&self, kept: &StorageRef, bytes: u64) -> Result<Arc<Source>, Error> {
        let mut block = match self.host.block(bytes) {
            // Copies of resident storages are dropped first.
            Err(failed) if failed.kind() == ErrorKind::OutOfMemory && self.forget_copies() => {
                self.host.block(bytes)
            }
            made => made,
        }?;
        timed(&self.counts.out_nanos, || kept.copy_to(block.room(), bytes))?;
        add(&self.counts.bytes_out, bytes);
        Ok(Arc::new(Source::Host(block)))
    }

    /// Drops the copies of resident storages. Returns true if there were any.
    pub(crate) fn forget_copies(&self) -> bool {
        let mut table = self.table();
        let copies: Vec<_> = table.entries.values_mut().filter_map(|entry| entry.copy.take()).collect();
        drop(table);
        !copies.is_empty()
    }

    /// Ends the limit on the device.
    pub(crate) fn end_limit(&self) {
        self.limit_bytes.store(u64::MAX, Ordering::Relaxed);
        drop(self.limit.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Fetches a storage unless it is on the device. With `ahead`, fails if room would have to be made first.
    pub(crate) fn fetch(&self, id: u64, ahead: bool) -> Result<(), Error> {
        let _moving = Moving::begin();
        let Some((kept, bytes, note)) = self.begin_fetch(id, ahead)? else { return Ok(()) };
        let began = Instant::now();
        let filled = self.filled(&kept, bytes, &note, ahead);
        let memory = match filled {
            Ok(memory) => memory,
            Err(failed) => {
                drop(self.set_location(id, Location::Evicted));
                return Err(failed);
            }
        };
        let mut table = self.set_location(id, Location::Resident);
        let is_newer = memory.is_newer;
        let stand_in = kept.give(memory);
        let mut source = stand_in.map(|stand_in| evicted::into_source(*stand_in));
        let entry = table.entries.get_mut(&id);
        let name = entry.and_then(|entry| {
            entry.copy = source.take_if(|_| !is_newer);
            entry.name.clone()
        });
        drop(table);
        // Dropping either may free memory of the device or the host.
        drop((kept, source));
        add(&self.counts.fetches, 1);
        add(&self.counts.bytes_in, bytes);
        if !ahead {
            self.stalled(began);
        }
        self.notify(|| Event::Fetched { name: name.as_deref().map(str::to_owned), bytes, is_ahead: ahead });
        Ok(())
    }

    fn stalled(&self, began: Instant) {
        add(&self.counts.stalls, 1);
        add(&self.counts.stall_nanos, u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }

    fn begin_fetch(&self, id: u64, ahead: bool) -> Result<Option<(StorageRef, u64, StorageNote)>, Error> {
        let mut table = self.table();
        let mut waits_since = None;
        loop {
            let Some(entry) = table.entries.get_mut(&id) else { return Ok(None) };
            match entry.location {
                Location::Resident => break,
                Location::Evicted => {
                    let Some(kept) = entry.storage.keep() else { return Ok(None) };
                    entry.location = Location::Fetching { ahead };
                    return Ok(Some((kept, entry.bytes, entry.note.clone())));
                }
                Location::Parked => {
                    return Err(Error::new(
                        ErrorKind::Offloaded,
                        parked_message(&entry.words(), &self.device),
                    ));
                }
                Location::Evicting | Location::Fetching { .. } => {
                    if entry.location == (Location::Fetching { ahead: true }) && !ahead {
                        add(&self.counts.late, 1);
                    }
                    waits_since.get_or_insert_with(Instant::now);
                    table = self.wait(table);
                }
            }
        }
        drop(table);
        if let Some(began) = waits_since {
            self.stalled(began);
        }
        Ok(None)
    }

    /// Allocates device memory and fills it with the bytes of an evicted storage.
    pub(crate) fn filled(
        &self,
        kept: &StorageRef,
        bytes: u64,
        note: &StorageNote,
        ahead: bool,
    ) -> Result<DeviceMemory, Error> {
        let _aside = Aside::begin();
        let mut memory = loop {
            let lacking = self.lacking_bytes(bytes);
            if lacking > 0 && ahead {
                return Err(Error::new(ErrorKind::OutOfMemory, "no room ahead".to_owned()));
            }
            if lacking > 0 && self.try_make_room(lacking) {
                continue;
            }
            match note.on_fetch(|| kept.memory(bytes)) {
                Err(failed) if failed.kind() == ErrorKind::OutOfMemory && !ahead => {
                    if !self.try_make_room(bytes) {
                        return Err(failed);
                    }
                }
                made => break made?,
            }
        };
        let stand_in = kept.stand_in().expect("it is on its way back");
        timed(&self.counts.in_nanos, || memory.fill(&evicted::source_of(stand_in).bytes()?))?;
        Ok(memory)
    }
}

fn unreadable(requested: usize, bytes: u64) -> Error {
    let message = format!("offload: read of {requested} bytes: the memory has {bytes}");
    Error::new(ErrorKind::Unsupported, message)
}
