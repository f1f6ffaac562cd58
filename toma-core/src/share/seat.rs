//! A call's place among those who use the same device.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use super::Cancel;
use crate::memory::MemorySource;

/// A call's place among those who use the same device, from its opening to its end.
///
/// Each attempt of the call enters and leaves. Dropping the seat leaves, too, and makes room for
/// another call. Only calls with the option `device` take one.
#[derive(Debug)]
pub(crate) struct Seat {
    node: Node,
}

/// One attempt, for the attempts nested in it to name as their parent.
///
/// It means nothing any more when that attempt is over, so a stale one does no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node(u64);

/// How an attempt shares its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// With other attempts.
    Shared,
    /// With nobody but the attempts around it and those that wait.
    Alone,
}

/// What ends a wait, whichever comes first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds<'a> {
    /// A moment of the engine's clock; what is left until then passes in real time, even where a test
    /// holds the clock. `None`: no bound.
    pub(crate) until: Option<Instant>,
    pub(crate) cancel: Option<&'a Cancel>,
}

/// How a wait ended. The attempt has entered in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// In its turn, and alone when that was asked for.
    Yes,
    /// Among others, because the bound has passed.
    TimedOut,
    /// Among others, because nobody wants the call to wait.
    Cancelled,
}

impl Seat {
    /// A seat at `device`, told by its name.
    pub(crate) fn at(_device: &dyn MemorySource) -> Self {
        Self { node: Node(0) }
    }

    /// Enters at once, as one of several; false when somebody is ahead, who must be waited for: see
    /// [`admission`](Self::admission).
    ///
    /// `parent` is the attempt around this one on the same thread or task, whatever its device. Inside
    /// an attempt on the same device it always succeeds.
    #[inline]
    pub(crate) fn try_enter(&self, _parent: Option<Node>) -> bool {
        true
    }

    /// Waits for its turn and enters: a future, or [`Admission::wait`] for a thread.
    ///
    /// The seat must have been left. While it waits, the attempts around it count as waiting. Dropped
    /// before it is ready, it leaves the queue and the seat has not entered.
    pub(crate) fn admission<'a>(
        &'a self,
        _kind: Kind,
        _parent: Option<Node>,
        _bounds: Bounds<'a>,
    ) -> Admission<'a> {
        Admission { _seat: self }
    }

    /// The attempt is over and its values are gone: others may begin. Leaving twice is harmless.
    #[inline]
    pub(crate) fn leave(&self) {}

    /// The piece is done: the next wait goes to the end of the queue. Until this is called, waits of the
    /// call keep the place of the first.
    #[inline]
    pub(crate) fn next_piece(&self) {}

    /// How many other attempts run on the device now, not counting those around this one and those that
    /// wait. Without a seat in the way of others: it reads, and writes nothing.
    #[inline]
    pub(crate) fn others(&self) -> usize {
        0
    }

    /// This attempt, for those nested in it. Another one after each entering.
    #[inline]
    pub(crate) fn node(&self) -> Node {
        self.node
    }
}

/// A wait for one's turn; see [`Seat::admission`].
#[must_use = "waits only when it is polled or waited for"]
#[derive(Debug)]
pub(crate) struct Admission<'a> {
    _seat: &'a Seat,
}

impl Admission<'_> {
    /// Blocks the thread until it is ready.
    pub(crate) fn wait(self) -> Admitted {
        Admitted::Yes
    }
}

impl Future for Admission<'_> {
    type Output = Admitted;

    fn poll(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Admitted> {
        Poll::Ready(Admitted::Yes)
    }
}
