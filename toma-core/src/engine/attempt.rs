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
use crate::classify::{Class, OutOfMemory, classify_panic};
use crate::reserve;
use crate::share::Node;
use crate::thread_state::{Before, Tasked};

/// A panic that came out of an attempt.
pub(crate) struct Panic {
    pub(crate) payload: Payload,
    /// It has not been printed. Kept with the payload, because other panics may come and go on this
    /// thread before it is decided what to do: in destructors, observers and policies.
    silenced: bool,
}

type Payload = Box<dyn Any + Send>;

thread_local! {
    // No destructor, so it works at thread exit too.
    static SHIELD: Cell<Shield> = const { Cell::new(Shield { terms: Terms::NONE, silenced: false }) };
}

/// Under which terms an attempt runs, with those of the attempts around it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// What would be tried again.
    pub(crate) retryable: Retryable,
    /// The work is to be done in another memory.
    pub(crate) falls_back: bool,
    /// The innermost attempt that has a seat at its device.
    pub(crate) node: Option<Node>,
}

impl Terms {
    pub(crate) const NONE: Self = Self { retryable: Retryable::NOTHING, falls_back: false, node: None };
}

#[derive(Clone, Copy)]
struct Shield {
    terms: Terms,
    /// The last panic inside this attempt was kept from printing.
    silenced: bool,
}

/// Runs `body` once; a panic comes back as a value, with the modes of the thread as they were.
#[inline]
pub(crate) fn attempt<R>(
    terms: Terms,
    before: &Before,
    body: impl FnOnce() -> R,
) -> Result<R, Panic> {
    let raised = Raised::new(terms);
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
    terms: Terms,
    body: F,
) -> (Before, Result<F::Output, Panic>) {
    let mut body = pin!(Some(body));
    let mut running = Running { task: Some(Tasked::new(body.as_mut())), node: terms.node };
    poll_fn(|context| {
        let before = Before::now();
        let task = running.task.as_mut().expect("it is dropped with the attempt");
        let result = match attempt(terms, &before, || task.poll(before, context)) {
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
    node: Option<Node>,
}

impl<F: Future> Drop for Running<'_, F> {
    fn drop(&mut self) {
        let _inside = Inside::of(self.node);
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
    SHIELD.get().terms.retryable
}

/// Whether the work is to be done in another memory.
pub(crate) fn falls_back() -> bool {
    SHIELD.get().terms.falls_back
}

/// The attempt around what runs now, if any has a seat.
pub(crate) fn around() -> Option<Node> {
    SHIELD.get().terms.node
}

/// While it lives, what this thread runs is inside an attempt that has a seat.
#[must_use = "what runs after it is dropped is outside again"]
pub(crate) struct Inside {
    /// The shield before, where there is a seat at all.
    before: Option<Shield>,
}

impl Inside {
    pub(crate) fn of(node: Option<Node>) -> Self {
        let before = node.map(|_| SHIELD.get());
        if let Some(Shield { terms, silenced }) = before {
            SHIELD.set(Shield { terms: Terms { node, ..terms }, silenced });
        }
        Self { before }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // A panic may have come meanwhile: whether it was silenced stays.
            let Shield { silenced, .. } = SHIELD.get();
            SHIELD.set(Shield { silenced, ..before });
        }
    }
}

/// The shield of one attempt, to be lowered to what it was.
struct Raised {
    before: Shield,
}

impl Raised {
    #[inline]
    fn new(Terms { retryable, falls_back, node }: Terms) -> Self {
        let before = SHIELD.get();
        let outer = before.terms;
        let retryable = Retryable {
            out_of_memory: outer.retryable.out_of_memory || retryable.out_of_memory,
            transient: outer.retryable.transient || retryable.transient,
        };
        let (falls_back, node) = (outer.falls_back || falls_back, node.or(outer.node));
        SHIELD.set(Shield { terms: Terms { retryable, falls_back, node }, silenced: false });
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
    match classify_panic(payload).class {
        Class::OutOfMemory => quiet.out_of_memory,
        Class::Transient => quiet.transient,
        Class::Poisoned | Class::Other => false,
    }
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
