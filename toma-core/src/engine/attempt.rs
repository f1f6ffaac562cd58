//! One attempt: run under `catch_unwind`, with the panic hook silent for failures that are retried.
//!
//! tch's ordinary methods report out of memory by panicking, so a loop that retries would print a
//! panic message for each attempt. The hook stays silent exactly when the attempt (or one around
//! it on the same thread) would be tried again after this failure. Whether it would is settled
//! before the attempt starts, because the hook runs in the middle of the panic and may not ask
//! anybody. When a silenced panic has to be passed on after all, it is raised anew, so that the
//! hook prints it: whatever is passed on has been printed exactly once.
//!
//! Beside this shield stand the modes of the thread that a library has [registered](crate::thread_state):
//! an attempt that fails leaves those from before it.

use std::any::Any;
use std::cell::Cell;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::panic::{self, AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::pin::pin;
use std::sync::Once;
use std::task::Poll;

use super::machine::Retryable;
use super::surroundings::{Inside, Surroundings};
use crate::classify::{OutOfMemory, classify_panic};
use crate::reserve;
use crate::thread_state::{Before, Tasked};

/// A panic that came out of an attempt.
pub(crate) struct Panic {
    pub(crate) payload: Payload,
    /// It has not been printed. Kept with the payload, because other panics may come and go on this
    /// thread before it is decided what to do: in destructors, observers and policies.
    silenced: bool,
}

type Payload = Box<dyn Any + Send>;

impl Panic {
    pub(crate) fn was_printed(&self) -> bool {
        !self.silenced
    }
}

thread_local! {
    // No destructor, so it works at thread exit too.
    static SHIELD: Cell<Shield> = const { Cell::new(Shield { quiet: Retryable::NOTHING, silenced: false }) };
}

// One word, so that it is read, set and put back by one instruction each.
#[repr(align(4))]
#[derive(Clone, Copy)]
struct Shield {
    /// What this attempt or one around it would retry.
    quiet: Retryable,
    /// The last panic inside this attempt was kept from printing.
    silenced: bool,
}

/// Runs `body` once; a panic comes back as a value, with the modes of the thread as they were.
#[inline]
pub(crate) fn attempt<R>(
    retryable: Retryable,
    before: &Before,
    body: impl FnOnce() -> R,
) -> Result<R, Panic> {
    let raised = Raised::new(retryable);
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => {
            raised.lower();
            Ok(result)
        }
        Err(payload) => {
            let Shield { silenced, .. } = raised.lower();
            before.put_back();
            Err(Panic { payload, silenced })
        }
    }
}

/// Polls `body` to its end; the shield is raised for each poll only, so that other tasks of the
/// thread keep their messages. The modes are those from before the last poll.
pub(crate) async fn attempt_async<F: Future>(
    (retryable, surroundings): (Retryable, Option<Surroundings>),
    body: F,
) -> (Before, Result<F::Output, Panic>) {
    let mut body = pin!(Some(body));
    let mut running = Running { task: Some(Tasked::new(body.as_mut())), surroundings };
    poll_fn(|context| {
        let _inside = Inside::of(surroundings);
        let before = Before::now();
        let task = running.task.as_mut().expect("it is dropped with the attempt");
        let result = match attempt(retryable, &before, || task.poll(before, context)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(outcome)) => Ok(outcome),
            Err(panic) => Err(panic),
        };
        Poll::Ready((before, result))
    })
    .await
}

/// A body that may be dropped while it waits, with loops in its destructors.
struct Running<'a, F: Future> {
    task: Option<Tasked<'a, F>>,
    surroundings: Option<Surroundings>,
}

impl<F: Future> Drop for Running<'_, F> {
    fn drop(&mut self) {
        let _inside = Inside::of(self.surroundings);
        self.task = None;
    }
}

/// Passes a panic on, printed exactly once.
pub(crate) fn pass_on(Panic { payload, silenced }: Panic) -> ! {
    let outer_may_retry = would_retry() != Retryable::NOTHING;
    if silenced && !outer_may_retry {
        raise_anew(payload);
    }
    // A loop around this one answers for it now.
    SHIELD.set(Shield { silenced, ..SHIELD.get() });
    resume_unwind(payload)
}

/// What this attempt or one around it would retry.
pub(crate) fn would_retry() -> Retryable {
    SHIELD.get().quiet
}

/// The shield of one attempt, to be lowered to what it was.
struct Raised {
    before: Shield,
}

impl Raised {
    #[inline]
    fn new(retryable: Retryable) -> Self {
        let before = SHIELD.get();
        let quiet = Retryable {
            out_of_memory: before.quiet.out_of_memory || retryable.out_of_memory,
            transient: before.quiet.transient || retryable.transient,
        };
        SHIELD.set(Shield { quiet, silenced: false });
        Self { before }
    }

    /// Returns the shield of the attempt. The one before it comes back whole: a panic may be in
    /// flight from before, when a destructor ran this attempt.
    #[inline]
    fn lower(self) -> Shield {
        SHIELD.replace(self.before)
    }
}

/// Puts our hook in front of the one in force and takes the reserve, once per process.
///
/// With `panic = "abort"` nothing can be retried after a panic, so nothing may be silenced.
#[inline]
pub(crate) fn prepare() {
    static PREPARED: Once = Once::new();
    // Changing the hook is refused on a panicking thread; a later call then does it.
    if !PREPARED.is_completed() && !std::thread::panicking() {
        PREPARED.call_once(|| {
            reserve::hold();
            if cfg!(panic = "unwind") {
                chain_hook();
            }
        });
    }
}

fn chain_hook() {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let silenced = silence(info.payload());
        // Of a panic that is printed too: it takes the place of one that the body kept to itself.
        SHIELD.set(Shield { silenced, ..SHIELD.get() });
        if !silenced {
            previous(info);
        }
    }));
}

fn silence(payload: &(dyn Any + Send)) -> bool {
    let quiet = would_retry();
    if quiet == Retryable::NOTHING {
        return false;
    }
    quiet.covers(classify_panic(payload).class)
}

/// Panics with the very payload, through the hook.
fn raise_anew(payload: Payload) -> ! {
    let payload = raise_as::<String>(payload);
    let payload = raise_as::<&'static str>(payload);
    let payload = raise_as::<OutOfMemory>(payload);
    let payload = raise_as::<std::io::Error>(payload);
    let payload = raise_as::<std::collections::TryReserveError>(payload);
    let payload = raise_as::<Box<dyn Error + Send + Sync>>(payload);
    let payload = raise_as::<Box<dyn Error + Send>>(payload);
    #[cfg(feature = "anyhow")]
    let payload = raise_as::<anyhow::Error>(payload);
    // A type that only its own crate can name: the hook is told its words in its place.
    let words = classify_panic(payload.as_ref()).message;
    let _ = catch_unwind(|| panic_any(words.into_owned()));
    resume_unwind(payload)
}

fn raise_as<T: Any + Send>(payload: Payload) -> Payload {
    match payload.downcast::<T>() {
        Ok(known) => panic_any(*known),
        Err(other) => other,
    }
}
