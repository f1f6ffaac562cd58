//! One attempt: run under `catch_unwind`, with the panic hook silent for failures that are retried.
//!
//! tch's ordinary methods report out of memory by panicking, so a loop that retries would print a
//! panic message for each attempt. The hook stays silent exactly when the attempt (or one around
//! it on the same thread) would be tried again after this failure. Whether it would is settled
//! before the attempt starts, because the hook runs in the middle of the panic and may not ask
//! anybody. When a silenced panic has to be passed on after all, it is raised anew, so that the
//! hook prints it: whatever is passed on has been printed exactly once.

use std::any::Any;
use std::cell::Cell;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::panic::{self, AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::pin::pin;
use std::sync::Once;

use super::machine::Retryable;
use crate::classify::{Class, OutOfMemory, classify_panic};

/// What a panic leaves behind.
pub(crate) type Payload = Box<dyn Any + Send>;

thread_local! {
    // No destructor, so it works at thread exit too.
    static SHIELD: Cell<Shield> = const { Cell::new(Shield { quiet: Retryable::NOTHING, silenced: false }) };
}

#[derive(Clone, Copy)]
struct Shield {
    /// What this attempt or one around it would retry.
    quiet: Retryable,
    /// A panic was kept from printing and nobody has answered for it yet.
    silenced: bool,
}

/// Runs `body` once; a panic comes back as its payload.
#[inline]
pub(crate) fn attempt<R>(retryable: Retryable, body: impl FnOnce() -> R) -> Result<R, Payload> {
    let _raised = Raised::new(retryable);
    catch_unwind(AssertUnwindSafe(body))
}

/// Polls `body` to its end; the shield is raised for each poll only, so that other tasks of the
/// thread keep their messages.
pub(crate) async fn attempt_async<F: Future>(retryable: Retryable, body: F) -> Result<F::Output, Payload> {
    let mut body = pin!(body);
    poll_fn(|context| {
        let _raised = Raised::new(retryable);
        match catch_unwind(AssertUnwindSafe(|| body.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(payload) => std::task::Poll::Ready(Err(payload)),
        }
    })
    .await
}

/// Passes a panic on, printed exactly once.
pub(crate) fn pass_on(payload: Payload) -> ! {
    let shield = SHIELD.get();
    let outer_may_retry = shield.quiet != Retryable::NOTHING;
    if shield.silenced && !outer_may_retry {
        forget_silenced();
        raise_anew(payload);
    }
    resume_unwind(payload)
}

/// The failure is answered for: by a retry, or because somebody else prints it.
pub(crate) fn forget_silenced() {
    SHIELD.set(Shield { silenced: false, ..SHIELD.get() });
}

/// Lowers the shield to what it was, also when the attempt unwinds.
struct Raised {
    before: Retryable,
}

impl Raised {
    #[inline]
    fn new(retryable: Retryable) -> Self {
        let before = SHIELD.get().quiet;
        let quiet = Retryable {
            out_of_memory: before.out_of_memory || retryable.out_of_memory,
            transient: before.transient || retryable.transient,
        };
        SHIELD.set(Shield { quiet, silenced: false });
        Self { before }
    }
}

impl Drop for Raised {
    #[inline]
    fn drop(&mut self) {
        SHIELD.set(Shield { quiet: self.before, ..SHIELD.get() });
    }
}

/// Puts our hook in front of the one in force, once per process.
///
/// With `panic = "abort"` nothing can be retried after a panic, so nothing may be silenced.
#[inline]
pub(crate) fn install_hook() {
    static INSTALLED: Once = Once::new();
    // Changing the hook is refused on a panicking thread; a later call then does it.
    if cfg!(panic = "unwind") && !INSTALLED.is_completed() && !std::thread::panicking() {
        INSTALLED.call_once(chain_hook);
    }
}

fn chain_hook() {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if silence(info.payload()) {
            SHIELD.set(Shield { silenced: true, ..SHIELD.get() });
        } else {
            previous(info);
        }
    }));
}

fn silence(payload: &(dyn Any + Send)) -> bool {
    let quiet = SHIELD.get().quiet;
    if quiet == Retryable::NOTHING {
        return false;
    }
    match classify_panic(payload).class {
        Class::OutOfMemory => quiet.out_of_memory,
        Class::Transient => quiet.transient,
        Class::Poisoned | Class::Other => false,
    }
}

/// Panics with the very payload, through the hook. Only classified payloads are ever silenced, so
/// these types are all there are.
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
    // A type the user registered: the message is lost to the hook, the payload is not.
    eprintln!("toma: passing on a panic that ran out of memory");
    resume_unwind(payload)
}

fn raise_as<T: Any + Send>(payload: Payload) -> Payload {
    match payload.downcast::<T>() {
        Ok(known) => panic_any(*known),
        Err(other) => other,
    }
}
