//! A call's place among those who use the same device.

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::Ordering::Relaxed;

use super::admission::{Admission, Bounds};
use super::arbiter::Kind;
use super::hub::Hub;
use super::slots::{Device, Node, Slot};
use crate::call_site::hash_of;
use crate::memory::MemorySource;

static HUB: LazyLock<Hub> = LazyLock::new(Hub::new);

thread_local! {
    /// The slots this thread has given back last: most likely free, and in its processor's cache. As many
    /// as calls are commonly nested. No destructor, so it works at thread exit too.
    static LATELY: Cell<[usize; 4]> = const { Cell::new([0; 4]) };
}

/// A call's place among those who use the same device, from its opening to its end.
///
/// Each attempt of the call enters and leaves. Dropping the seat leaves, too, and makes room for
/// another call. Only calls with the option `device` take one.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(super) hub: &'static Hub,
    pub(super) slot: &'static Slot,
    pub(super) device: Device,
}

impl Seat {
    /// A seat at `device`, told by its name.
    #[inline]
    pub(crate) fn at(device: &dyn MemorySource) -> Self {
        Self::of(&HUB, device.name())
    }

    #[inline]
    pub(super) fn of(hub: &'static Hub, name: &str) -> Self {
        let device = told_by(name);
        Self { hub, slot: hub.take_slot(device, &LATELY.get()), device }
    }

    /// Enters at once, as one of several; false when somebody is ahead, who must be waited for: see
    /// [`admission`](Self::admission).
    ///
    /// `parent` is the attempt around this one on the same thread or task, whatever its device. Inside
    /// an attempt on the same device it succeeds, because that one holds memory in any case, and gives it
    /// back sooner when nothing in it waits; unless another one inside that is alone.
    #[inline]
    pub(crate) fn try_enter(&self, parent: Option<Node>) -> bool {
        let entered = self.hub.try_enter(self.slot, self.device, parent);
        if entered {
            self.visit(parent);
        }
        entered
    }

    #[inline]
    pub(super) fn visit(&self, parent: Option<Node>) {
        self.hub.visit(self.slot, self.device, parent);
    }

    /// Waits for its turn and enters: a future, or [`Admission::wait`] for a thread.
    ///
    /// The seat must have been left. While it waits, the attempts around it are held up: nested ones do
    /// not wait for them. Dropped before it is ready, it leaves the queue and the seat has not entered.
    pub(crate) fn admission<'a>(
        &'a self,
        kind: Kind,
        parent: Option<Node>,
        bounds: Bounds<'a>,
    ) -> Admission<'a> {
        Admission::new(self, kind, parent, bounds)
    }

    /// The attempt is over and its values are gone: others may begin. Leaving twice is harmless.
    #[inline]
    pub(crate) fn leave(&self) {
        self.hub.leave(self.slot);
    }

    /// The piece is done: the next wait goes to the end of the queue. Until this is called, waits of the
    /// call keep the place of the first.
    #[inline]
    pub(crate) fn next_piece(&self) {
        self.slot.ticket.store(0, Relaxed);
    }

    /// Nothing is asked of the call until it [goes on](Self::go_on), perhaps for hours: until then it is
    /// no [company](Self::has_company).
    pub(crate) fn rest(&self) {
        self.slot.rest();
    }

    /// The call goes on.
    pub(crate) fn go_on(&self) {
        self.slot.go_on(self.device);
    }

    /// How many other attempts are in the middle on the device now, not counting those around this one.
    /// Those that are held up count, because they hold memory. It reads a cache line of every call.
    #[inline]
    pub(crate) fn others(&self) -> usize {
        self.hub.others(self.slot, self.device)
    }

    /// Whether other calls work on the device, but for those around this one and those that rest. Unlike
    /// [`others`](Self::others) it misses none that is just between two attempts.
    pub(crate) fn has_company(&self) -> bool {
        self.hub.has_company(self.slot, self.device)
    }

    /// The attempts that others have ever made on the device, but for those inside others there, in one
    /// number: 0 when there were none, and a larger one after each. So it misses none that came and went.
    /// Others are those who had a seat at the same time as somebody else.
    pub(crate) fn visits(&self) -> u64 {
        self.hub.visits(self.slot, self.device)
    }

    /// Whether others have begun attempts on the device since there were so many `visits`. A trace that had to
    /// make room for those of other devices meanwhile is none, and hides as many visits as it stood for.
    pub(crate) fn was_visited_since(&self, visits: u64) -> bool {
        self.visits().wrapping_sub(visits).cast_signed() > 0
    }

    /// What the attempt takes is measured, until it [is known](Self::measured) or the attempt is over;
    /// false when that of another one on the device is already, around this one or beside it, on
    /// whatever thread. Of two that begin at the same time at most one gets true.
    pub(crate) fn measure(&self) -> bool {
        self.hub.measure(self.slot, self.device)
    }

    /// What the attempt took is known.
    pub(crate) fn measured(&self) {
        self.slot.measured();
    }

    /// Whether that attempt runs on the same device.
    pub(crate) fn shares_with(&self, node: Node) -> bool {
        self.hub.device_of(node) == Some(self.device)
    }

    /// This attempt, for those nested in it. Another one after each entering.
    #[inline]
    pub(crate) fn node(&self) -> Node {
        self.slot.node()
    }
}

impl Drop for Seat {
    #[inline]
    fn drop(&mut self) {
        // A body that panicked, or a future that was dropped in the middle of an attempt.
        if self.slot.device().is_some() {
            self.leave();
        }
        self.slot.give_back();
        let [first, second, third, _] = LATELY.get();
        LATELY.set([self.slot.index(), first, second, third]);
    }
}

/// Sources of one name count as one memory.
fn told_by(name: &str) -> Device {
    Device::new(hash_of(name)).unwrap_or(Device::MIN)
}
