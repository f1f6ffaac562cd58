//! Where attempts meet: the fast way past each other, and the queue for when somebody is in the way.
//!
//! An ordinary attempt writes that it runs to its own slot, and then looks whether anybody is in the
//! queue. Somebody who joins the queue counts there first, and then looks who runs. The fences between
//! make at least one of the two see the other, so nobody begins beside one who is alone, and nobody
//! ends without waking those who wait for it. Everything else happens under one lock.

use std::sync::PoisonError;
use std::task::Waker;

use super::arbiter::{Arbiter, Entry, Kind};
use super::slots::{Device, Node, Runner, Slot, Slots};
use super::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, fence};
use super::wake::wake;

/// All devices of the process together: what is rare need not be fast.
#[derive(Debug)]
pub(super) struct Hub {
    /// How many the arbiter has: those who wait, and those who are alone. Written under the lock.
    queued: AtomicUsize,
    slots: Slots,
    desk: Mutex<Desk>,
}

#[derive(Debug, Default)]
struct Desk {
    arbiter: Arbiter,
    wakers: Vec<(Node, Waker)>,
}

impl Hub {
    pub(super) fn new() -> Self {
        Self { queued: AtomicUsize::new(0), slots: Slots::new(), desk: Mutex::new(Desk::default()) }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot of one's own, one of the `likely` if it is free.
    pub(super) fn take_slot(&self, device: Device, likely: &[usize]) -> &Slot {
        self.slots.take(device, likely).unwrap_or_else(|| self.take_new_slot(device))
    }

    /// Under the lock, so that whoever has it and looks for those who run sees all slots.
    #[cold]
    fn take_new_slot(&self, device: Device) -> &Slot {
        let _desk = self.desk();
        loop {
            if let Some(slot) = self.slots.take(device, &[]) {
                return slot;
            }
            self.slots.grow();
        }
    }

    /// Begins an ordinary attempt, unless somebody is ahead.
    #[inline]
    pub(super) fn try_enter(&self, slot: &Slot, device: Device, parent: Option<Node>) -> bool {
        slot.renew(parent);
        slot.run_on(device);
        self.queued.load(Ordering::Acquire) == 0 || self.stays(slot, device)
    }

    /// Somebody is in the queue, perhaps for another device.
    #[cold]
    fn stays(&self, slot: &Slot, device: Device) -> bool {
        self.change(|desk| {
            let (who, around) = (Runner { node: slot.node(), device }, self.around(slot));
            let stays = desk.arbiter.has_room_for(who, &around, &self.running());
            if !stays {
                slot.stop();
            }
            stays
        })
    }

    /// Ends an attempt.
    #[inline]
    pub(super) fn leave(&self, slot: &Slot) {
        slot.stop();
        if self.queued.load(Ordering::Acquire) != 0 {
            self.withdraw(slot);
        }
    }

    /// Ends an attempt, or its wait.
    #[cold]
    pub(super) fn withdraw(&self, slot: &Slot) {
        let waker = self.change(|desk| {
            slot.stop();
            desk.remove(slot.node())
        });
        drop(waker);
    }

    /// Joins the queue.
    pub(super) fn join(&self, slot: &Slot, device: Device, kind: Kind, parent: Option<Node>) {
        debug_assert_eq!(slot.device(), None, "a seat is left before it waits");
        slot.renew(parent);
        self.change(|desk| {
            let ticket = match slot.ticket.load(Ordering::Relaxed) {
                0 => desk.arbiter.draw(),
                kept => kept,
            };
            slot.ticket.store(ticket, Ordering::Relaxed);
            let (who, around) = (Runner { node: slot.node(), device }, self.around(slot));
            desk.arbiter.join(Entry { ticket, who, around, kind, holds: false });
        });
    }

    /// Whether the attempt in the queue has been let in; if not, `waker` will be told.
    pub(super) fn is_admitted(&self, slot: &Slot, waker: &Waker) -> bool {
        let (node, waker) = (slot.node(), waker.clone());
        let mut desk = self.desk();
        let waits = desk.arbiter.is_waiting(node);
        let before = desk.take_waker(node);
        if waits {
            desk.wakers.push((node, waker));
        }
        drop(desk);
        drop(before);
        !waits
    }

    /// Waits no more and begins beside whoever runs; true when it had been let in before.
    pub(super) fn barge_in(&self, slot: &Slot, device: Device) -> bool {
        let (waker, admitted) = self.change(|desk| {
            if slot.device().is_some() {
                return (None, true);
            }
            slot.run_on(device);
            (desk.remove(slot.node()), false)
        });
        drop(waker);
        admitted
    }

    /// Changes the queue, lets in whoever may begin then, and wakes them: without the lock, because a
    /// waker is anybody's code. For the same reason one that is not needed any more is returned.
    fn change<R>(&self, change: impl FnOnce(&mut Desk) -> R) -> R {
        let mut desk = self.desk();
        let result = change(&mut desk);
        self.publish(&desk);
        let admitted = desk.arbiter.admit(self.running());
        let wakers: Vec<_> =
            admitted.into_iter().filter_map(|runner| self.let_in(&mut desk, runner)).collect();
        self.publish(&desk);
        drop(desk);
        wake(wakers);
        result
    }

    fn let_in(&self, desk: &mut Desk, Runner { node, device }: Runner) -> Option<Waker> {
        self.slots.of(node)?.run_on(device);
        desk.take_waker(node)
    }

    /// How many are in the queue, before anything that the caller reads afterwards.
    fn publish(&self, desk: &Desk) {
        self.queued.store(desk.arbiter.len(), Ordering::Release);
        fence(Ordering::SeqCst);
    }

    fn running(&self) -> Vec<Runner> {
        self.slots.running().collect()
    }

    fn around(&self, slot: &Slot) -> Vec<Node> {
        self.slots.around(slot).collect()
    }

    /// Leaves a trace of the attempt for those who look later, unless it is a part of another one there.
    #[inline]
    pub(super) fn visit(&self, slot: &Slot, device: Device, parent: Option<Node>) {
        if parent.is_none() || !self.slots.is_inside(slot, device) {
            slot.visit(device);
        }
    }

    /// See [`Slots::visits`].
    pub(super) fn visits(&self, slot: &Slot, device: Device) -> u64 {
        self.slots.visits(slot, device)
    }

    /// Whether other calls work on the device.
    pub(super) fn has_company(&self, slot: &Slot, device: Device) -> bool {
        self.slots.have_company(slot, device)
    }

    /// The attempt of `slot` is measured; false when another one on the device is already.
    pub(super) fn measure(&self, slot: &Slot, device: Device) -> bool {
        slot.measure();
        !self.slots.measure_another(slot, device)
    }

    /// See [`Slots::device_of`].
    pub(super) fn device_of(&self, node: Node) -> Option<Device> {
        self.slots.device_of(node)
    }

    /// How many other attempts hold memory of the device.
    pub(super) fn others(&self, slot: &Slot, device: Device) -> usize {
        self.holders(slot, device).count()
    }

    /// The other attempts that hold memory of the device, but for those around this one.
    pub(super) fn holders(&self, slot: &Slot, device: Device) -> impl Iterator<Item = Node> {
        let own = slot.node();
        let here = self.slots.running().filter(move |runner| runner.device == device && runner.node != own);
        here.map(|runner| runner.node).filter(move |&holder| !self.slots.is_around(holder, slot))
    }
}

#[allow(dead_code, reason = "for the tests here, and for the model check, which is another crate")]
impl Hub {
    /// Nobody waits, and nobody is alone.
    pub(super) fn is_empty(&self) -> bool {
        self.queued.load(Ordering::Acquire) == 0 && self.desk().wakers.is_empty()
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.desk().wakers.len()
    }

    /// How many slots there are.
    pub(super) fn slots(&self) -> usize {
        self.slots.iter().count()
    }

    pub(super) fn slot(&self, index: usize) -> &Slot {
        self.slots.get(index).expect("slots stay")
    }
}

impl Desk {
    fn remove(&mut self, node: Node) -> Option<Waker> {
        self.arbiter.remove(node);
        self.take_waker(node)
    }

    fn take_waker(&mut self, node: Node) -> Option<Waker> {
        let at = self.wakers.iter().position(|(of, _)| *of == node)?;
        Some(self.wakers.swap_remove(at).1)
    }
}
