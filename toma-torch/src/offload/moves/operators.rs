//! Callbacks at the beginning and end of operators, on the threads that run them.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::callbacks::OperatorCall;
use super::counts::add;
use super::dry_step;
use super::evicted::evicted_message;
use super::registry;
use super::state::ManagerState;
use super::stopwatch::Stopwatch;
use super::table::{Books, Location, Table};
use crate::error::{Error, ErrorKind};
use crate::ffi::{self, DeviceId, Ended, Manages, Use};
use crate::offload::step::known_step::{Ensuing, UsedStorage};

/// Storages that stay pinned until the next operator of this thread, because the program may access their memory.
#[derive(Default)]
struct Lent(Vec<(Arc<ManagerState>, u64)>);

impl Lent {
    fn end_pins(&mut self) {
        for (shared, id) in self.0.drain(..) {
            shared.unpin(&[id]);
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.end_pins();
    }
}

thread_local! {
    static LENT: RefCell<Lent> = RefCell::default();
}

/// Ends the pins of storages whose memory the program may have accessed.
pub(crate) fn end_lent_pins() {
    if ffi::toma_offload_is_forked() {
        return;
    }
    let _thread_ends = LENT.try_with(|lent| lent.borrow_mut().end_pins());
}

/// Keeps pins of storages for the program until the next operator of this thread.
fn lend(shared: &Arc<ManagerState>, ids: &[u64]) {
    let lent = LENT.try_with(|lent| {
        lent.borrow_mut().0.extend(ids.iter().map(|id| (Arc::clone(shared), *id)));
    });
    if lent.is_err() {
        shared.unpin(ids);
    }
}

/// Drops the sources from which rows were gathered.
fn drop_rows(uses: &mut [Use<'_>]) {
    for storage in uses {
        drop(storage.take_rows());
    }
}

/// Ends all pins of an operator, also pins of a manager that is gone since.
fn release(uses: &mut [Use<'_>]) {
    if uses.iter().any(|storage| storage.is_pinned) {
        registry::all().books.iter().for_each(|books| books.release(uses));
    }
}

/// Storages of one device.
fn own<'a, 'b>(id: DeviceId, uses: &'a mut [Use<'b>]) -> impl Iterator<Item = &'a mut Use<'b>> + use<'a, 'b> {
    uses.iter_mut().filter(move |storage| storage.device == id)
}

impl Books {
    /// Pins known storages for an operator that cannot fetch them, and waits for those that are moving. Makes access to
    /// evicted ones an error.
    fn hold(&self, uses: &mut [Use<'_>]) {
        let (mut stale, mut refused) = (Vec::new(), Vec::new());
        let mut table = self.table();
        for storage in own(self.id, uses) {
            stale.extend(table.pin_foreign_use(storage));
            while storage.is_pinned && table.is_moving(storage.id()) {
                table = self.wait(table);
            }
            let evicted = table.known(storage).filter(|entry| entry.location == Location::Evicted);
            refused.extend(evicted.and_then(|entry| {
                let kept = entry.storage.keep()?;
                kept.refuse(Some(&evicted_message(&entry.words(), &self.device)));
                Some(kept)
            }));
        }
        drop(table);
        drop((stale, refused));
    }

    /// Ends the pins of these storages.
    fn release(&self, uses: &mut [Use<'_>]) {
        let mut table = self.table();
        let stale: Vec<_> = own(self.id, uses).filter_map(|storage| table.ends(storage)).collect();
        drop(table);
        drop(stale);
    }
}

/// Forwards the callbacks to all managers.
pub(crate) struct Operators;

impl Manages for Operators {
    fn begin(&self, name: &str, uses: &mut [Use<'_>]) -> Result<(), Error> {
        registry::check_process()?;
        if dry_step::begins(name, uses) {
            return Ok(());
        }
        end_lent_pins();
        let registered = registry::all();
        for shared in &registered.managers {
            if let Err(failed) = shared.begin(name, uses) {
                release(uses);
                drop_rows(uses);
                return Err(failed);
            }
        }
        registered.unmanaged.iter().for_each(|books| books.hold(uses));
        Ok(())
    }

    fn end(&self, ended: &mut Ended<'_>) {
        if ffi::toma_offload_is_forked() || dry_step::ends(ended) {
            return;
        }
        for shared in &registry::all().managers {
            shared.end(ended);
        }
        release(ended.uses);
        drop_rows(ended.uses);
    }

    fn hold(&self, uses: &mut [Use<'_>], begins: bool) {
        if ffi::toma_offload_is_forked() {
            return;
        }
        for books in &registry::all().books {
            if begins {
                books.hold(uses);
            } else {
                books.release(uses);
            }
        }
    }

    fn make_room(&self, device: DeviceId, bytes: u64) -> bool {
        !ffi::toma_offload_is_forked()
            && registry::of(device).is_some_and(|shared| {
                !shared.is_patient.load(Ordering::Relaxed) && shared.try_make_room(bytes)
            })
    }
}

impl ManagerState {
    fn begin(self: &Arc<Self>, name: &str, uses: &mut [Use<'_>]) -> Result<(), Error> {
        add(&self.counts.operators, 1);
        self.before(&self.call(name, uses))?;
        let (missing, inside_bytes, follows, swept) = {
            let mut table = self.table();
            table.now += 1;
            let follows = table.steps.is_active();
            let (mut found, mut missing) = (Vec::new(), Vec::new());
            let gathers_outside = self.gathers_outside.load(Ordering::Relaxed);
            for storage in own(self.id, uses) {
                let may_stay = storage.is_gathered && gathers_outside;
                if may_stay && table.serve_rows(storage) {
                    self.counts.gathered(storage.bytes);
                    continue;
                }
                let Some((one, location)) = table.pin_use(storage) else { continue };
                missing.extend((location != Location::Resident).then_some(one));
                // A gathered table is left out of the step: it may be on the host in the next repetition.
                found.extend((follows && !may_stay).then_some(one));
            }
            let inside_bytes = if follows { table.step_on(name, &found) } else { 0 };
            (missing, inside_bytes, follows, table.swept())
        };
        drop(swept);
        self.bring(name, &missing, inside_bytes)?;
        if follows {
            self.fetch_ahead();
        }
        Stopwatch::start();
        Ok(())
    }

    fn bring(&self, name: &str, missing: &[UsedStorage], inside_bytes: u64) -> Result<(), Error> {
        let inside_bytes = if self.is_patient.load(Ordering::Relaxed) { 0 } else { inside_bytes };
        if missing.is_empty() && inside_bytes == 0 {
            return Ok(());
        }
        let missing_bytes: u64 = missing.iter().map(|one| one.bytes).sum();
        self.make_room_for(missing_bytes + inside_bytes);
        missing.iter().try_for_each(|one| self.fetch(one.id, false)).map_err(|failed| {
            if failed.kind() != ErrorKind::OutOfMemory {
                return failed;
            }
            let message = format!("{failed}, by {name}, whose arguments lack {missing_bytes} bytes");
            Error::new(ErrorKind::OutOfMemory, message)
        })
    }

    fn end(self: &Arc<Self>, ended: &mut Ended<'_>) {
        let mut dropped = Vec::new();
        let lent;
        let ensuing = {
            let mut table = self.table();
            for storage in own(self.id, ended.uses) {
                dropped.extend(table.ends(storage));
            }
            let follows = table.steps.is_active();
            let mut made = Vec::new();
            for storage in own(self.id, ended.made) {
                made.extend(table.record_made(storage).filter(|_| follows));
            }
            lent = self.pin_lent(&mut table, ended);
            if ended.has_failed {
                table.steps.fails();
                Ensuing::default()
            } else {
                table.steps.ends(&made, ended.inside_bytes, Stopwatch::read())
            }
        };
        drop(dropped);
        lend(self, &lent);
        let call = self.call(ended.name, ended.uses);
        self.counts.peak_used_bytes.fetch_max(call.bytes + ended.inside_bytes, Ordering::Relaxed);
        self.after(&call);
        self.settle(ensuing);
    }

    /// Pins the arguments or results whose memory the program may now read directly, if the operator lends them.
    /// Returns their ids. Under the lock of the table, so none is evicted before it is pinned.
    fn pin_lent(&self, table: &mut Table, ended: &mut Ended<'_>) -> Vec<u64> {
        let lent: &mut [Use<'_>] = match ended {
            Ended { lends_uses: true, uses, .. } => uses,
            Ended { lends_made: true, made, .. } => made,
            _ => &mut [],
        };
        let pinned = |id: &u64| table.entries.get_mut(id).map(|entry| entry.pins += 1).is_some();
        own(self.id, lent).map(|storage| storage.id()).filter(pinned).collect()
    }

    fn call<'a>(&self, name: &'a str, uses: &mut [Use<'_>]) -> OperatorCall<'a> {
        let fetched = own(self.id, uses).filter(|storage| !storage.has_stayed());
        let bytes = fetched.map(|storage| storage.bytes).sum();
        OperatorCall { name, number: self.counts.operators.load(Ordering::Relaxed), bytes }
    }

    /// Runs after each operator: carries out the plan, learns a recorded step, and evicts storages beyond the budget.
    fn settle(self: &Arc<Self>, ensuing: Ensuing) {
        self.evict_by_plan(ensuing.evicts);
        if let Some(learned) = ensuing.known {
            self.learn(*learned);
        }
        if ensuing.is_round {
            self.adapt();
        }
        if self.is_eager() {
            self.evict_early();
        }
        if self.device.device() != tch::Device::Cpu && !self.is_patient.load(Ordering::Relaxed) {
            let lacking = self.lacking_bytes(0);
            if lacking > 0 {
                self.make_room(lacking);
            }
        }
    }

    /// Keeps a storage on the device, or evicted, until as many calls of `unpin`. Returns false if it has no entry.
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

#[cfg(test)]
mod tests;
