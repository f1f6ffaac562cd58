//! Values one by one, from an asynchronous body.
//!
//! # Why
//!
//! Stable Rust has no generators, so a stream is one future and a slot. The future runs the whole loop, and
//! hands each value over through the slot.
//!
//! A stream is identified by its line alone, because the stack above it belongs to its executor.

use std::fmt;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use super::size::length;
use super::undo::Undo;
use super::unit::{AfterFailure, Unit};
use super::with::With;
use crate::call_site::{Above, Origin};
use crate::engine::asynchronous::{Attempts, pause, yield_now};
use crate::engine::call::Call;
use crate::engine::drive::{Cleanup, LeftOutItem, Settled, pass_on_left_out};
use crate::outcome::Judge;
use crate::policy::Policy;

impl<P: Policy, K, B: Undo, U: Unit> With<'_, P, K, B, U> {
    /// Returns a stream of the values of an asynchronous body, like [`iter`](Self::iter). The body is an async
    /// closure, or any function that returns a future.
    ///
    /// The future may borrow values that the closure captured by reference, but not change them: share such state in
    /// a `RefCell` or a lock. The stream is `Send` if the body, its future and its return value are.
    ///
    /// ```
    /// # extern crate toma_core as toma;
    /// # use std::pin::pin;
    /// # use std::task::{Context, Poll, Waker};
    /// use toma::{GlobalCache, classify::OutOfMemory, execute};
    ///
    /// # async fn embed(texts: &[&str]) -> Result<usize, OutOfMemory> {
    /// #     if texts.len() > 2 { Err(OutOfMemory::new(None)) } else { Ok(texts.len()) }
    /// # }
    /// # async fn run() -> Result<(), OutOfMemory> {
    /// let texts = ["a text"; 5];
    /// let mut rows = execute::with::<GlobalCache>()
    ///     .stream(0..texts.len(), 4, async |start, end| embed(&texts[start..end]).await);
    /// while let Some(row) = rows.next().await {
    ///     println!("{} more", row?);
    /// }
    /// # Ok(())
    /// # }
    /// # assert_eq!(pin!(run()).poll(&mut Context::from_waker(Waker::noop())), Poll::Pending);
    /// ```
    ///
    /// Sizes are remembered per calling line (and `key`), because the stack above belongs to the executor that polls.
    #[track_caller]
    pub fn stream<R, M, F: Future<Output = R>>(
        self,
        range: Range<usize>,
        initial: usize,
        body: impl FnMut(usize, usize) -> F,
    ) -> Stream<R, impl Future<Output = ()>>
    where
        K: Judge<R, M>,
    {
        let With { core, judge, undo, unit } = self.shifted(range.start).initial(initial);
        let mut after = AfterFailure { undo, unit, start: core.start };
        let caller = Location::caller();
        let extent = after.extent(length(range.start, range.end, || core.name_at(Some(caller))));
        let origin = Origin { site: core.site, caller: Some(caller), above: Above::Unknown };
        let parts = (core.name, origin, extent);
        let mut call = Call::new(core.cache, &core.policy, &core.options, parts);
        call.open(&core.policy, &core.options);
        let attempts = Attempts::of(call, core.policy, judge);
        let value = Handover(Arc::default());
        let running = Producer { attempts, after, left_out: None, value: value.clone() };
        Stream { driver: Some(Box::pin(running.run(range.start, body))), value }
    }
}

/// Values of an asynchronous body, one by one, made by [`With::stream`].
///
/// It may be dropped at any time, and so may the future of [`next`](Self::next), which loses nothing:
/// the attempt goes on with the following `next`. Until then it keeps its memory, and others on its
/// device may wait for it. With the feature `stream` it is a `futures_core::Stream`.
///
/// ```
/// # extern crate toma_core as toma;
/// # use std::pin::pin;
/// # use std::task::{Context, Waker};
/// use toma::{GlobalCache, execute};
///
/// # async fn run() {
/// let mut lengths = execute::with::<GlobalCache>().stream(0..5, 2, async |start, end| end - start);
/// assert_eq!(lengths.next().await, Some(2));
/// drop(lengths); // the other pieces do not run
/// # }
/// # let mut run = pin!(run());
/// # while run.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {}
/// ```
#[must_use = "nothing runs until the stream is asked for its next value"]
pub struct Stream<R, D> {
    /// `None` once the call is over.
    driver: Option<Pin<Box<D>>>,
    value: Handover<R>,
}

impl<R, D: Future<Output = ()>> Stream<R, D> {
    /// The value of the next piece; `None` after the last.
    pub async fn next(&mut self) -> Option<R> {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<R>> {
        // Taken out, so that a panic that goes through ends the call.
        let Some(mut driver) = self.driver.take() else { return Poll::Ready(None) };
        let ended = driver.as_mut().poll(context).is_ready();
        if !ended {
            self.driver = Some(driver);
        }
        match self.value.take() {
            None if !ended => Poll::Pending,
            value => Poll::Ready(value),
        }
    }
}

#[cfg(feature = "stream")]
impl<R, D: Future<Output = ()>> futures_core::Stream for Stream<R, D> {
    type Item = R;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<R>> {
        self.poll(context)
    }
}

#[cfg(feature = "stream")]
impl<R, D: Future<Output = ()>> futures_core::FusedStream for Stream<R, D> {
    fn is_terminated(&self) -> bool {
        self.driver.is_none()
    }
}

impl<R, D> fmt::Debug for Stream<R, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("ended", &self.driver.is_none()).finish_non_exhaustive()
    }
}

/// Slot for a value between the driver and the stream.
struct Handover<R>(Arc<Mutex<Option<R>>>);

impl<R> Handover<R> {
    fn put(&self, value: R) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }

    fn take(&self) -> Option<R> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<R> Clone for Handover<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// One call, worked off piece by piece.
struct Producer<'a, P: Policy, K, R, B, U> {
    attempts: Attempts<'a, P, K>,
    after: AfterFailure<B, U>,
    left_out: Option<LeftOutItem<R>>,
    value: Handover<R>,
}

/// Next action after an attempt.
enum NextStep {
    Attempt,
    /// A value is ready: wait for it to be taken.
    HandOver,
    /// Other tasks may free memory: let them run.
    Yield,
    End,
}

impl<P: Policy, K, R, B: Undo, U: Unit> Producer<'_, P, K, R, B, U> {
    async fn run<M, F: Future<Output = R>>(mut self, start: usize, mut body: impl FnMut(usize, usize) -> F)
    where
        K: Judge<R, M>,
    {
        self.attempts.call.go_on();
        while self.attempts.begin().await {
            let piece = self.attempts.piece();
            // The body is called inside the attempt: it may panic before there is a future.
            let attempt = async { body(start + piece.start, start + piece.end).await };
            let alone = self.attempts.run(attempt).await;
            let settled = self.attempts.agree(alone).await;
            match self.after(settled) {
                NextStep::Attempt => {}
                NextStep::HandOver => {
                    // The stream polls again when it is asked for its next value.
                    pause(|_| ()).await;
                    self.attempts.call.go_on();
                }
                NextStep::Yield => yield_now().await,
                NextStep::End => return,
            }
        }
        if let Some(error) = self.attempts.ended() {
            self.value.put(error);
        } else if let Some(item) = self.left_out.take() {
            self.value.put(pass_on_left_out(&mut self.attempts.call, item));
        }
    }

    /// Handles the result of an attempt. No outcome is held across an await: it is handed over, or dropped.
    fn after(&mut self, settled: Settled<R>) -> NextStep {
        match settled {
            Settled::Succeeded(value) => {
                self.value.put(value);
                if self.attempts.call.is_over() && self.left_out.is_none() {
                    NextStep::End
                } else {
                    NextStep::HandOver
                }
            }
            Settled::Failed(error) => {
                self.value.put(error);
                NextStep::End
            }
            Settled::LeftOut(item) => {
                self.attempts.leave_out(&mut self.after, item, &mut self.left_out);
                NextStep::Yield
            }
            Settled::Retry(_) => {
                let _inside = self.attempts.inside();
                self.after.undo(self.attempts.piece());
                NextStep::Attempt
            }
        }
    }
}
