//! How a call comes to its turn on the device.

use std::time::{Duration, Instant};

use super::{Alone, Nesting, Sharing};
use crate::clock;
use crate::engine::call::Call;
use crate::nesting::Surroundings;
use crate::observe::EventKind;
use crate::policy::Policy;
use crate::share::{Admitted, Bounds, Kind, Node, Seat};

/// A wait to be made before an attempt begins.
struct Wait {
    kind: Kind,
    around: Option<Node>,
    until: Option<Instant>,
    since: Instant,
    /// It is worth telling of: a call that does not wait only says that it is there.
    takes_time: bool,
}

impl<P: Policy> Call<'_, P> {
    /// Waits for the call's turn on the device.
    #[inline]
    pub(crate) fn enter(&mut self) {
        if !self.plain {
            self.enter_blocking();
            self.promise();
        }
    }

    #[inline(never)]
    fn enter_blocking(&mut self) {
        self.hold_up(Surroundings::now().marks.polled());
        let Some(wait) = self.wait() else { return };
        if let Some(Sharing { seat: Some(seat), ladder, .. }) = &self.sharing {
            let bounds = Bounds { until: wait.until, cancel: ladder.cancel };
            let admitted = seat.admission(wait.kind, wait.around, bounds).wait();
            self.waited(&wait, admitted);
        }
    }

    /// The same without blocking the thread.
    pub(crate) async fn enter_async(&mut self) {
        self.wait_async().await;
        self.promise();
    }

    async fn wait_async(&mut self) {
        self.hold_up(Surroundings::now().marks.blocked());
        let Some(wait) = self.wait() else { return };
        if let Some(Sharing { seat: Some(seat), ladder, .. }) = &self.sharing {
            let bounds = Bounds { until: wait.until, cancel: ladder.cancel };
            let admitted = seat.admission(wait.kind, wait.around, bounds).await;
            self.waited(&wait, admitted);
        }
    }

    /// Settles before the attempt begins who waits for others: it, or the one around it.
    fn promise(&mut self) {
        let may_be_alone = self.machine.can_be_alone_yet() && !self.is_late() && !self.is_cancelled();
        let is_elsewhere = self.machine.is_elsewhere();
        let Some(sharing) = &mut self.sharing else { return };
        let seat = sharing.seat.as_ref().filter(|_| !is_elsewhere);
        let has_promise =
            Surroundings::now().anew.zip(seat).is_some_and(|(around, seat)| seat.shares_with(around));
        let had_holders = has_promise && sharing.runs_among_others();
        let waits = seat.is_some() && sharing.alone.is_none() && sharing.waits_at_most().is_some();
        sharing.nesting = Nesting { promises: may_be_alone && waits, has_promise, had_holders };
    }

    /// CheckedPolicy at every attempt, because an iterator may be asked in another place each time.
    fn hold_up(&mut self, held_up: bool) {
        if let Some(sharing) = &mut self.sharing {
            sharing.held_up = held_up;
        }
    }

    /// Enters, or says what has to be waited for first.
    fn wait(&mut self) -> Option<Wait> {
        let sharing = self.sharing.as_mut().filter(|_| !self.machine.is_elsewhere())?;
        let (seat, around) = (sharing.seat.as_ref()?, Surroundings::now().node);
        // While one inside an attempt waits for its turn, what is around it holds memory that others lack.
        let takes_turns = around.is_none() && sharing.turns.are_left();
        if sharing.alone.is_none() && takes_turns && sharing.waits_at_most().is_some() {
            sharing.alone = Some(Alone::InTurn);
        }
        let kind = if sharing.alone.is_some() { Kind::Alone } else { Kind::Shared };
        if kind == Kind::Shared && seat.try_enter(around) {
            return None;
        }
        let (since, at_most) = (clock::now(), sharing.waits_at_most());
        let bound = since.checked_add(at_most.unwrap_or_default());
        let until = bound.into_iter().chain(self.deadline).min();
        let takes_time = at_most.is_some();
        if takes_time && self.watch.is_some() {
            self.tell_waits();
        }
        Some(Wait { kind, around, until, since, takes_time })
    }

    fn tell_waits(&mut self) {
        let size = self.machine.coming_size();
        let seat = self.sharing.as_ref().and_then(|sharing| sharing.seat.as_ref());
        let others = seat.map_or(0, Seat::others);
        self.tell(|| EventKind::Waits { size, others });
    }

    fn waited(&mut self, wait: &Wait, admitted: Admitted) {
        let Some(sharing) = &mut self.sharing else { return };
        if admitted != Admitted::Yes {
            sharing.alone = None;
        }
        let alone = sharing.alone.is_some();
        if wait.takes_time {
            let elapsed = clock::now().saturating_duration_since(wait.since);
            if admitted == Admitted::TimedOut {
                sharing.waited_in_vain(wait.since, elapsed);
            }
            self.tally.waited(elapsed, alone);
            self.tell(|| EventKind::Waited { elapsed, alone });
        } else if alone {
            self.tally.waited(Duration::ZERO, true);
        }
    }
}
