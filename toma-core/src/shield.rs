//! The shield of an attempt: the panic hook stays silent for failures that will be retried.
//!
//! tch's ordinary methods report out of memory by panicking, so a loop that retries would print a panic message for
//! each attempt. The hook stays silent exactly if this attempt, or an enclosing one of the same thread, would be
//! retried after this failure. That is decided before the attempt starts, because the hook runs in the middle of the
//! panic and may ask nothing. A silenced panic that has to be passed on after all is raised anew, so that the hook
//! prints it: each panic that is passed on has been printed exactly once.

use std::any::Any;
use std::cell::Cell;
use std::error::Error;
use std::panic::{self, AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::Once;

use crate::classify::{Class, OutOfMemory, classify_panic};
use crate::reserve;

/// A panic that came out of an attempt.
pub(crate) struct Panic {
    pub(crate) payload: Payload,
    /// True if it has not been printed. Kept with the payload, because other panics may come and go on this thread
    /// before this one is handled: in destructors, observers and policies.
    silenced: bool,
}

type Payload = Box<dyn Any + Send>;

impl Panic {
    pub(crate) fn was_printed(&self) -> bool {
        !self.silenced
    }
}

/// Failures of the next attempt that would be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retryable(u8);

impl Retryable {
    pub(crate) const NOTHING: Self = Self(0);
    const OUT_OF_MEMORY: u8 = 1;
    const TRANSIENT: u8 = 1 << 1;

    #[inline]
    pub(crate) fn new(out_of_memory: bool, transient: bool) -> Self {
        Self((u8::from(out_of_memory) * Self::OUT_OF_MEMORY) | (u8::from(transient) * Self::TRANSIENT))
    }

    pub(crate) fn out_of_memory(self) -> bool {
        self.0 & Self::OUT_OF_MEMORY != 0
    }

    /// True if a failure of this class would be retried.
    pub(crate) fn covers(self, class: Class) -> bool {
        match class {
            Class::OutOfMemory => self.out_of_memory(),
            Class::Transient => self.0 & Self::TRANSIENT != 0,
            Class::Poisoned | Class::Other => false,
        }
    }
}

/// Flags of the attempt that a thread runs: one for any attempt, and one for records that its body has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inside(u8);

impl Inside {
    /// No attempt, or none that a body can leave records for.
    pub(crate) const NOTHING: Self = Self(0);
    pub(crate) const ATTEMPT: Self = Self(1);
    const LEFT: u8 = 1 << 1;

    /// True if the body of the attempt has left records.
    #[inline]
    pub(crate) fn has_left(self) -> bool {
        self.0 & Self::LEFT != 0
    }

    pub(crate) fn is_attempt(self) -> bool {
        self.0 & Self::ATTEMPT.0 != 0
    }
}

thread_local! {
    // No destructor, so it works at thread exit too.
    static SHIELD: Cell<Shield> = const { Cell::new(Shield(0)) };
    /// True while this thread makes a dry run, in which no panic is printed, because none of them is from real work.
    static DRY: Cell<bool> = const { Cell::new(false) };
}

/// The shield of one attempt. One word without padding, so that it is read, set and restored by one instruction each.
/// It holds the failures that this attempt or an enclosing one would retry, a flag that the last panic inside this
/// attempt was not printed, and the flags of [`Inside`].
#[derive(Clone, Copy)]
struct Shield(u32);

impl Shield {
    const QUIET: u32 = 0xff;
    const SILENCED: u32 = 1 << 8;
    const INSIDE: u32 = 16;

    /// Shield of an attempt within this one.
    #[inline]
    fn within(self, retryable: Retryable, inside: Inside) -> Self {
        Self(self.0 & Self::QUIET | u32::from(retryable.0) | u32::from(inside.0) << Self::INSIDE)
    }

    fn with_silenced(self, silenced: bool) -> Self {
        Self(if silenced { self.0 | Self::SILENCED } else { self.0 & !Self::SILENCED })
    }

    fn quiet(self) -> Retryable {
        let [quiet, ..] = self.0.to_le_bytes();
        Retryable(quiet)
    }

    fn silenced(self) -> bool {
        self.0 & Self::SILENCED != 0
    }

    #[inline]
    fn inside(self) -> Inside {
        let [_, _, inside, _] = self.0.to_le_bytes();
        Inside(inside)
    }
}

/// Runs `body` once under the shield. A panic is returned as a value. `left` is called if the body has left records.
#[inline]
pub(crate) fn run<R>(
    retryable: Retryable,
    inside: Inside,
    body: impl FnOnce() -> R,
    left: impl FnOnce(),
) -> Result<R, Panic> {
    let raised = Raised::new(retryable, inside);
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => {
            if raised.lower().inside().has_left() {
                left();
            }
            Ok(result)
        }
        Err(payload) => {
            let shield = raised.lower();
            if shield.inside().has_left() {
                left();
            }
            Err(Panic { payload, silenced: shield.silenced() })
        }
    }
}

/// Flags of the attempt that this thread runs.
pub(crate) fn inside() -> Inside {
    SHIELD.get().inside()
}

/// Marks that the body of the current attempt has left records.
pub(crate) fn has_left() {
    SHIELD.set(Shield(SHIELD.get().0 | u32::from(Inside::LEFT) << Shield::INSIDE));
}

/// Runs `body` as a dry run, whose panics are all kept from printing.
pub(crate) fn run_dry<R>(body: impl FnOnce() -> R) -> Result<R, Panic> {
    prepare();
    let before = DRY.replace(true);
    let outcome = run(Retryable::NOTHING, Inside::NOTHING, body, || {});
    DRY.set(before);
    outcome
}

/// True if this thread makes a dry run.
#[inline]
pub(crate) fn is_dry() -> bool {
    DRY.get()
}

/// Passes a panic on, printed exactly once.
pub(crate) fn pass_on(Panic { payload, silenced }: Panic) -> ! {
    let outer_may_retry = would_retry() != Retryable::NOTHING;
    if silenced && !outer_may_retry {
        raise_anew(payload);
    }
    // An enclosing loop decides about the panic now.
    SHIELD.set(SHIELD.get().with_silenced(silenced));
    resume_unwind(payload)
}

/// Failures that this attempt or an enclosing one would retry.
pub(crate) fn would_retry() -> Retryable {
    SHIELD.get().quiet()
}

/// Raised shield of one attempt, with the shield to restore.
struct Raised {
    before: Shield,
}

impl Raised {
    #[inline]
    fn new(retryable: Retryable, inside: Inside) -> Self {
        let before = SHIELD.get();
        SHIELD.set(before.within(retryable, inside));
        Self { before }
    }

    /// Restores the shield from before, and returns that of the attempt. All of it is restored, because a panic may
    /// be in flight from before, when a destructor runs this attempt.
    #[inline]
    fn lower(self) -> Shield {
        SHIELD.replace(self.before)
    }
}

/// Puts our hook before the current one and takes the reserve of memory, once per process.
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
        // Also for a panic that is printed, because it replaces one that the body caught.
        SHIELD.set(SHIELD.get().with_silenced(silenced));
        if !silenced {
            previous(info);
        }
    }));
}

fn silence(payload: &(dyn Any + Send)) -> bool {
    if is_dry() {
        return true;
    }
    let quiet = would_retry();
    if quiet == Retryable::NOTHING {
        return false;
    }
    quiet.covers(classify_panic(payload).class)
}

/// Panics with the original payload, through the hook.
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
    // Only its own crate can name the type of the payload, so the hook gets its message instead.
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
