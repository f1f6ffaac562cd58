//! One attempt: its piece, what would be retried, its clock, what is measured, and its turn on the device.

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

/// What belongs to one attempt. The turn is dropped last: its memory is back by then.
#[must_use = "an attempt that is dropped gives its turn back"]
pub(crate) struct Attempt {
    pub(crate) piece: Range<usize>,
    /// Settled before it begins, so that the panic hook may rely on it.
    pub(crate) retryable: Retryable,
    /// Where its work is done, where that is not where the call was made.
    pub(crate) nesting: Option<Nesting>,
    pub(super) begun: Option<Instant>,
    pub(super) metered: Option<Begun>,
    /// Its failure was injected: what follows from it is no evidence.
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

    /// Nothing yet, and nothing would be retried.
    #[inline]
    pub(super) fn none() -> Self {
        Self::of(0..0, Retryable::NOTHING)
    }

    /// Gives the turn back.
    pub(super) fn end(&mut self) {
        self.hold = Hold::None;
    }

    /// While the guard lives, the thread is inside the attempt.
    #[inline]
    pub(crate) fn enter(&self) -> nesting::Inside {
        nesting::Inside::of(self.nesting)
    }

    /// Runs `body`, and tells `left` when it has left anything; with the feature `testing`, a failure may be injected
    /// where a retry is possible.
    #[inline]
    pub(super) fn run<R>(
        &mut self,
        inside: Inside,
        before: &Before,
        body: impl FnOnce() -> R,
        left: impl FnOnce(),
    ) -> Result<R, Panic> {
        let guard = Guard { retryable: self.retryable, inside };
        #[cfg(feature = "testing")]
        if let Some(injected) = inject::ask(self.retryable, self.piece.len()) {
            self.injected = true;
            return guard.run(before, || injected.around(body), left);
        }
        guard.run(before, body, left)
    }

    /// The same for a future.
    pub(super) async fn run_async<F: Future>(
        &mut self,
        inside: Inside,
        told: Told<'_>,
        body: F,
    ) -> (Before, Result<F::Output, Panic>) {
        let guard = Guard { retryable: self.retryable, inside };
        #[cfg(feature = "testing")]
        if let Some(injected) = inject::ask(self.retryable, self.piece.len()) {
            self.injected = true;
            return poll_guarded(guard, self.nesting, told, injected.around_async(body)).await;
        }
        poll_guarded(guard, self.nesting, told, body).await
    }
}

/// What of a body's failures would be retried, and what the thread is inside of meanwhile.
#[derive(Clone, Copy)]
pub(super) struct Guard {
    pub(super) retryable: Retryable,
    pub(super) inside: Inside,
}

impl Guard {
    /// Around what belongs to no attempt.
    pub(super) const NOTHING: Self = Self { retryable: Retryable::NOTHING, inside: Inside::NOTHING };

    /// Runs `body` once under the shield; a panic comes back as a value, with the modes of the thread as they were.
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

/// What hears of an asynchronous body: the witness of each poll, if it is told of the body, and what it has left.
#[derive(Default)]
pub(super) struct Told<'a> {
    pub(super) witnessed: Option<&'a mut Witnessed>,
    pub(super) left: Option<&'a mut Option<Left>>,
}

/// Polls `body` to its end. The shield is raised for each poll only, so that other tasks of the thread keep their
/// messages; the modes are those from before the last poll.
pub(super) async fn poll_guarded<F: Future>(
    guard: Guard,
    nesting: Option<Nesting>,
    told: Told<'_>,
    body: F,
) -> (Before, Result<F::Output, Panic>) {
    let Told { witnessed: told, mut left } = told;
    let mut body = pin!(Some(body));
    let mut running = Running { task: Some(Tasked::new(body.as_mut())), nesting, told };
    poll_fn(|context| {
        let _inside = nesting::Inside::of(nesting);
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
        running.told = None;
        Poll::Ready((before, result))
    })
    .await
}

/// A body that may be dropped while it waits, with loops in its destructors.
struct Running<'a, F: Future> {
    task: Option<Tasked<'a, F>>,
    nesting: Option<Nesting>,
    /// Those of the call, until it does not wait any more.
    told: Option<&'a mut Witnessed>,
}

impl<F: Future> Running<'_, F> {
    fn enter(&mut self) -> Option<Entered> {
        self.told.as_mut()?.enter()
    }
}

impl<F: Future> Drop for Running<'_, F> {
    fn drop(&mut self) {
        let _inside = nesting::Inside::of(self.nesting);
        let _entered = self.enter();
        self.task = None;
    }
}
