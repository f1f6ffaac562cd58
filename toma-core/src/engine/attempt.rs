//! One attempt: its piece, the failures that would be retried, its clock, its measurement, and its turn on a device.

use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::pin;
use std::task::Poll;
use std::time::Instant;

use super::hold::Hold;
use super::meter::Begun;
use crate::leaner::{self, Left};
use crate::nesting::{self, Nesting};
use crate::observe::witness::{Entered, Witnessed};
use crate::shield::{self, Inside, Panic, Retryable};
#[cfg(feature = "testing")]
use crate::testing::inject;
use crate::thread_state::{Before, Tasked};

/// State of one attempt. The turn is dropped last, when the attempt's memory is free again.
#[must_use = "an attempt that is dropped gives its turn back"]
pub(crate) struct Attempt {
    pub(crate) piece: Range<usize>,
    /// Failures that would be retried. Decided before the attempt begins, so that the panic hook may rely on it.
    pub(crate) retryable: Retryable,
    /// Nesting of the attempt's work, if it differs from that of the caller.
    pub(crate) nesting: Option<Nesting>,
    pub(super) begun: Option<Instant>,
    pub(super) metered: Option<Begun>,
    /// True if its failure was injected, which is no evidence about sizes.
    pub(super) injected: bool,
    pub(super) hold: Hold,
}

impl Attempt {
    /// An attempt of a call without stages.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "handing it over takes a tenth of a batch")]
    pub(super) fn of(piece: Range<usize>, retryable: Retryable) -> Self {
        Self {
            piece,
            retryable,
            nesting: None,
            begun: None,
            metered: None,
            injected: false,
            hold: Hold::None,
        }
    }

    /// An empty attempt, none of whose failures would be retried.
    #[inline]
    pub(super) fn none() -> Self {
        Self::of(0..0, Retryable::NOTHING)
    }

    /// Gives the turn back.
    pub(super) fn end(&mut self) {
        self.hold = Hold::None;
    }

    /// Enters the attempt on this thread until the guard is dropped.
    #[inline]
    pub(crate) fn enter(&self) -> nesting::Inside {
        nesting::Inside::of(self.nesting.as_ref())
    }

    /// Runs `body`, and calls `left` if the body has left records for its attempt. With the feature `testing`, a
    /// failure may be injected where a retry is possible.
    #[inline]
    pub(super) fn run<R>(
        &mut self,
        before: &Before,
        body: impl FnOnce() -> R,
        left: impl FnOnce(),
    ) -> Result<R, Panic> {
        let guard = Guard::of_attempt(self.retryable);
        #[cfg(feature = "testing")]
        if let Some(injected) = inject::ask(self.retryable, self.piece.len()) {
            self.injected = true;
            return guard.run(before, || injected.around(body), left);
        }
        guard.run(before, body, left)
    }

    /// Runs the future `body` as [`run`](Self::run) runs a closure.
    pub(super) async fn run_async<F: Future>(
        &mut self,
        receivers: Receivers<'_>,
        body: F,
    ) -> (Before, Result<F::Output, Panic>) {
        let guard = Guard::of_attempt(self.retryable);
        #[cfg(feature = "testing")]
        if let Some(injected) = inject::ask(self.retryable, self.piece.len()) {
            self.injected = true;
            return poll_guarded(guard, self.nesting, receivers, injected.around_async(body)).await;
        }
        poll_guarded(guard, self.nesting, receivers, body).await
    }
}

/// Failures of a body that would be retried, and a flag for the body of an attempt.
#[derive(Clone, Copy)]
pub(super) struct Guard {
    retryable: Retryable,
    inside: Inside,
}

impl Guard {
    /// Guard for code outside of attempts.
    pub(super) const NOTHING: Self = Self { retryable: Retryable::NOTHING, inside: Inside::NOTHING };

    /// Guard for code of an attempt.
    #[inline]
    pub(super) fn of_attempt(retryable: Retryable) -> Self {
        Self { retryable, inside: Inside::ATTEMPT }
    }

    /// Runs `body` once under the shield. A panic is returned as a value, and the thread's modes are restored.
    #[inline]
    pub(super) fn run<R>(
        self,
        before: &Before,
        body: impl FnOnce() -> R,
        left: impl FnOnce(),
    ) -> Result<R, Panic> {
        shield::run(self.retryable, self.inside, body, left).inspect_err(|_| before.recover())
    }
}

/// Receivers of an asynchronous body's progress: the witness, which observes each poll, and the slot for the records
/// that the body leaves.
#[derive(Default)]
pub(super) struct Receivers<'a> {
    pub(super) witnessed: Option<&'a mut Witnessed>,
    pub(super) left: Option<&'a mut Option<Left>>,
}

/// Polls `body` to its end. The shield is raised only during each poll, so that panics of other tasks on the thread
/// are printed as usual. The returned modes are those from before the last poll.
pub(super) async fn poll_guarded<F: Future>(
    guard: Guard,
    nesting: Option<Nesting>,
    receivers: Receivers<'_>,
    body: F,
) -> (Before, Result<F::Output, Panic>) {
    let Receivers { witnessed, mut left } = receivers;
    let mut body = pin!(Some(body));
    let mut running = Running { task: Some(Tasked::new(body.as_mut())), nesting, witnessed };
    poll_fn(|context| {
        let _inside = nesting::Inside::of(nesting.as_ref());
        let _entered = running.enter();
        let before = Before::now();
        let task = running.task.as_mut().expect("it is dropped with the attempt");
        let keep = || {
            let later = leaner::take();
            if let Some(left) = &mut left {
                left.get_or_insert_default().add(later);
            }
        };
        let result = match guard.run(&before, || task.poll(before, context), keep) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(outcome)) => Ok(outcome),
            Err(panic) => Err(panic),
        };
        running.witnessed = None;
        Poll::Ready((before, result))
    })
    .await
}

/// A body that may be dropped while it waits. Its destructors may run loops, so the drop enters the attempt.
struct Running<'a, F: Future> {
    task: Option<Tasked<'a, F>>,
    nesting: Option<Nesting>,
    /// The attempts of the call as the witness observes them, until the body is done.
    witnessed: Option<&'a mut Witnessed>,
}

impl<F: Future> Running<'_, F> {
    fn enter(&mut self) -> Option<Entered> {
        self.witnessed.as_mut()?.enter()
    }
}

impl<F: Future> Drop for Running<'_, F> {
    fn drop(&mut self) {
        let _inside = nesting::Inside::of(self.nesting.as_ref());
        let _entered = self.enter();
        self.task = None;
    }
}
