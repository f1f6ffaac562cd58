//! What is told of operators, on the threads that run them.

use std::cell::RefCell;
use std::sync::Arc;

use super::registry;
use super::shared::{Shared, add};
use super::table::Place;
use crate::error::{Error, ErrorKind};
use crate::ffi::{DeviceId, Ended, Use};

/// Storages whose memory the program may look at until the next operator of this thread.
#[derive(Default)]
struct Lent(Vec<(Arc<Shared>, u64)>);

impl Lent {
    fn take_back(&mut self) {
        for (shared, id) in self.0.drain(..) {
            shared.unpin(&[id]);
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.take_back();
    }
}

thread_local! {
    static LENT: RefCell<Lent> = RefCell::default();
}

/// Lets what the program may have looked at leave again.
pub(crate) fn take_back() {
    let _thread_ends = LENT.try_with(|lent| lent.borrow_mut().take_back());
}

fn lend(shared: &Arc<Shared>, id: u64) {
    if shared.pin(id) {
        let lent = LENT.try_with(|lent| lent.borrow_mut().0.push((Arc::clone(shared), id)));
        if lent.is_err() {
            shared.unpin(&[id]);
        }
    }
}

/// What an operator uses comes back, and stays until it ends.
pub(crate) fn begin(name: &str, uses: &mut [Use<'_>]) -> Result<(), Error> {
    take_back();
    let managers = registry::all();
    for (at, shared) in managers.iter().enumerate() {
        if let Err(failed) = shared.begin(name, uses) {
            for begun in &managers[..at] {
                begun.release(uses);
            }
            return Err(failed);
        }
    }
    Ok(())
}

pub(crate) fn end(ended: &mut Ended<'_>) {
    for shared in registry::all().iter() {
        shared.end(ended);
    }
}

/// An operator of a thread that has not entered begins or ends.
pub(crate) fn hold(uses: &mut [Use<'_>], begins: bool) {
    for shared in registry::all().iter() {
        if begins {
            shared.pin_found(uses);
        } else {
            shared.release(uses);
        }
    }
}

pub(crate) fn make_room(device: DeviceId, bytes: u64) -> bool {
    registry::of(device).is_some_and(|shared| shared.room_for(bytes))
}

impl Shared {
    fn own<'a, 'b>(&self, uses: &'a mut [Use<'b>]) -> impl Iterator<Item = &'a mut Use<'b>> + use<'a, 'b> {
        let id = self.id;
        uses.iter_mut().filter(move |storage| storage.device == id)
    }

    fn begin(&self, name: &str, uses: &mut [Use<'_>]) -> Result<(), Error> {
        add(&self.counts.operators, 1);
        let (missing, swept) = {
            let mut table = self.table();
            table.now += 1;
            let now = table.now;
            let mut missing = Vec::new();
            for storage in self.own(uses) {
                let Some(entry) = table.entry(storage) else { continue };
                storage.is_pinned = true;
                entry.pins += 1;
                entry.uses += 1;
                entry.last_use = now;
                if entry.place != Place::Resident {
                    missing.push((storage.id(), entry.bytes));
                }
            }
            (missing, table.swept())
        };
        drop(swept);
        self.bring(name, &missing).inspect_err(|_| self.release(uses))
    }

    fn bring(&self, name: &str, missing: &[(u64, u64)]) -> Result<(), Error> {
        if missing.is_empty() {
            return Ok(());
        }
        let missing_bytes = missing.iter().map(|(_, bytes)| bytes).sum();
        let lacking = self.lacking_bytes(missing_bytes);
        if lacking > 0 {
            self.room_for(lacking);
        }
        missing.iter().try_for_each(|(id, _)| self.fetch(*id, false)).map_err(|failed| {
            if failed.kind() != ErrorKind::OutOfMemory {
                return failed;
            }
            let message = format!("{failed}, by {name}, whose arguments lack {missing_bytes} bytes");
            Error::new(ErrorKind::OutOfMemory, message)
        })
    }

    fn end(self: &Arc<Self>, ended: &mut Ended<'_>) {
        let mut dropped = Vec::new();
        {
            let mut table = self.table();
            let now = table.now;
            for storage in self.own(ended.uses) {
                let Some(entry) = table.known(storage).filter(|_| storage.is_pinned) else { continue };
                entry.pins -= 1;
                entry.bytes = storage.bytes;
                storage.is_pinned = false;
                if storage.writes {
                    dropped.extend(entry.copy.take());
                }
                if !storage.may_move && entry.pins == 0 {
                    table.entries.remove(&storage.id());
                }
            }
            for storage in self.own(ended.made) {
                if let Some(entry) = table.entry(storage) {
                    entry.last_use = now;
                }
            }
        }
        drop(dropped);
        let lent: &mut [Use<'_>] = match ended {
            Ended { lends_uses: true, uses, .. } => uses,
            Ended { lends_made: true, made, .. } => made,
            _ => &mut [],
        };
        for storage in self.own(lent) {
            lend(self, storage.id());
        }
        self.settle();
    }

    /// After an operator: what is beyond the budget leaves, and what is not wanted.
    fn settle(&self) {
        if self.is_eager() {
            self.leave_early();
        }
        if self.device.device() != tch::Device::Cpu {
            let lacking = self.lacking_bytes(0);
            if lacking > 0 {
                self.make_room(lacking);
            }
        }
    }

    fn pin_found(&self, uses: &mut [Use<'_>]) {
        let mut table = self.table();
        for storage in self.own(uses) {
            if let Some(entry) = table.known(storage) {
                storage.is_pinned = true;
                entry.pins += 1;
            }
        }
    }

    /// Ends the pins of these.
    fn release(&self, uses: &mut [Use<'_>]) {
        let mut table = self.table();
        for storage in self.own(uses).filter(|storage| storage.is_pinned) {
            if let Some(entry) = table.known(storage) {
                storage.is_pinned = false;
                entry.pins -= 1;
            }
        }
    }

    /// Whether it is there to be pinned.
    pub(crate) fn pin(&self, id: u64) -> bool {
        let mut table = self.table();
        let entry = table.entries.get_mut(&id);
        entry.map(|entry| entry.pins += 1).is_some()
    }

    pub(crate) fn unpin(&self, ids: &[u64]) {
        let mut table = self.table();
        for id in ids {
            if let Some(entry) = table.entries.get_mut(id) {
                entry.pins -= 1;
            }
        }
    }
}
