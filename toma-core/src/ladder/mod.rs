//! What is tried when memory runs out, besides a smaller size.
//!
//! A size may have failed for reasons that have nothing to do with it: somebody else had the memory,
//! or a library held more back than it needs. So an attempt that ran out of memory climbs a ladder,
//! and each rung that is there gives it one more attempt at the same size:
//!
//! 1. **Release.** Cached memory was released, as after every failure; the same size again. Off, because
//!    libtorch's allocator has done that before it raises an error; for memory sources that do not.
//! 2. **Alone.** When other attempts run on the same `device`, wait until none does, and try the same
//!    size with the device to itself. On, for at most 10 seconds each time.
//! 3. **Hooks.** Ask whoever has [registered](on_release) to give memory back. On, where anybody has.
//! 4. **Smaller.** What the policy says. A new size has new rungs, but for the hooks: they are asked
//!    once per piece.
//! 5. **Fallback.** When nothing smaller is left: the first size again in another memory, which the
//!    body chooses where [`falls_back`] says so. Off. An item that fails alone, where sizes are
//!    [costs](crate::execute::With::by_cost), goes there for itself, and the others go on where they were.
//! 6. **Give up.** The body's own failure goes through.
//!
//! `max_attempts` counts all of these attempts. What succeeds on one of the first three rungs settles
//! nothing: the size was never too large. Without the option `device` there is nobody to wait for.
//!
//! # Threads on one device
//! Two loops that fit alone but not together would shrink each other to the floor. Instead the one that
//! fails first waits for the other's attempt to end, the others wait until it is done, oldest first, and
//! nobody shrinks. A call to which that happens takes turns for its next 1, 2, 4 .. 64 pieces, so
//! that they need not fail to find out. Calls without `device` neither wait nor are they waited for.
//!
//! # Loops inside attempts
//! A loop in an attempt on the same device never waits for that attempt. While it waits for others, the
//! attempt around it keeps what it holds. So those that hold memory go before those that hold none, as
//! [`share`](crate::share) says in full, and on one device whoever fits alone succeeds.
//!
//! Say two threads hold 40 of 100 bytes each, and need 50 more in a loop inside. Neither gets them. The loop
//! that failed first tries again while the other waits, fails again, and gives up. Its error comes out
//! of the attempt around it, which has failed among others, too: it gives its 40 bytes back, and
//! waits to be alone. Now the other loop has its 50, its attempt ends, and the first one begins anew,
//! alone. For that the body has to let the error of the loop inside through. It costs attempts, and the loop
//! inside has gone down to its smallest size before it gave up: allocate as late as possible.
//!
//! A loop inside that could [leave an item out](crate::execute::With::set_aside) or
//! [fall back](Ladder::fallback) does not do so while others hold memory of the device and an attempt around it
//! on the same device would wait for them: it gives up, too, for the reason
//! [`GaveWay`](crate::observe::Reason::GaveWay). So errors come out of a call that otherwise goes on without such
//! items, and panics where the attempt around has promised to keep them from being printed: let them through.
//! Once the attempt around was made anew, or if it would not wait (its ladder, its `max_attempts`, its deadline,
//! lately in vain, another device, no `device`), what fails alone inside is left out or goes elsewhere as ever.
//!
//! With several devices, an attempt that is alone on its own may fail for what is held of another; not so
//! with two that all use in the same order, where nothing waits while it holds the second. Nobody waits for
//! ever in any case. A panic at the smallest size goes through where its call meets another one on the
//! device for the first time, in the middle of the attempt: it has been printed by then.
//!
//! A body that starts threads with loops on its own device, and waits for them, keeps them waiting for it
//! until the bound has passed: give those loops a [`Ladder`] [`without_waiting`](Ladder::without_waiting).
//! A loop that blocks inside an asynchronous attempt on a device, with a device of its own or without, does
//! not wait at all, and neither do loops in it, because the executor may have to go on with the very task
//! they would wait for. A body that blocks on a future without a loop is not seen: await it instead.
//!
//! An iterator or a stream counts as a user of its device only while it is asked for a value.
//!
//! ```
//! # extern crate toma_core as toma;
//! use std::time::Duration;
//! use toma::ladder::{Ladder, falls_back};
//! use toma::{cache::NoCache, classify::OutOfMemory, execute};
//!
//! let ladder = Ladder::default().wait(Duration::from_secs(2)).fallback(true);
//! let where_it_ran = execute::with::<NoCache>().ladder(ladder).map(0..4, 4, |_start, _end| {
//!     if falls_back() { Ok("host") } else { Err(OutOfMemory::new(None)) }
//! })?;
//! assert_eq!(where_it_ran, ["host"]);
//! # Ok::<(), OutOfMemory>(())
//! ```

mod hooks;

use std::fmt;
use std::time::Duration;

pub use hooks::{Hooked, Pressure, on_release};
pub(crate) use hooks::{ask, is_registered};

use crate::nesting::Surroundings;
use crate::share::Cancel;

/// Which rungs of the [ladder](self) a call takes; the option `ladder`.
#[must_use = "does nothing until it is given to a call"]
#[derive(Clone, Copy, Debug)]
pub struct Ladder<'a> {
    pub(crate) release: bool,
    pub(crate) wait: Option<Duration>,
    pub(crate) hooks: bool,
    pub(crate) fallback: bool,
    pub(crate) cancel: Option<&'a Cancel>,
}

impl Default for Ladder<'_> {
    /// Waits for at most 10 seconds, asks hooks, and does not fall back.
    fn default() -> Self {
        Self {
            release: false,
            wait: Some(Duration::from_secs(10)),
            hooks: true,
            fallback: false,
            cancel: None,
        }
    }
}

impl<'a> Ladder<'a> {
    /// Tries the same size again once the device's cached memory is released; for a memory source
    /// whose allocator has not tried that before it failed.
    pub fn release_and_retry(mut self, on: bool) -> Self {
        self.release = on;
        self
    }

    /// Waits at most so long for other users of the device, each time.
    ///
    /// Those who are in the way may stay for long. So a call that has waited in vain does not wait at all for
    /// a while, and shrinks where it would have waited: for the rest of the piece, then for 2, 4 .. 64 pieces,
    /// and until what was lost so is at most a tenth of the time since the first such wait. Then it
    /// waits again, because they may have gone. That share is kept to by all calls of the process together, such as
    /// batches one after another, as long as any of those attempts is there that were in the way.
    ///
    /// The bound passes by the system's clock, even where a test holds the engine's.
    pub fn wait(mut self, at_most: Duration) -> Self {
        self.wait = Some(at_most);
        self
    }

    /// Neither waits for other users of the device to end nor lets those that wait be alone.
    pub fn without_waiting(mut self) -> Self {
        self.wait = None;
        self
    }

    /// Whether [hooks](on_release) are asked.
    pub fn hooks(mut self, on: bool) -> Self {
        self.hooks = on;
        self
    }

    /// Goes on in another memory when nothing smaller is left, see [`falls_back`]; inside an attempt that would
    /// wait for others on the device, [not before that](self#loops-inside-attempts).
    pub fn fallback(mut self, on: bool) -> Self {
        self.fallback = on;
        self
    }

    /// Ends all waits once `cancel` is cancelled, and starts no retry after that: a failure then goes
    /// through.
    ///
    /// A wait that is ended so is followed by the attempt it was for, because the failure before it is
    /// gone. A body that must not run any more asks [`Cancel::is_cancelled`] itself.
    pub fn cancelled_by(mut self, cancel: &'a Cancel) -> Self {
        self.cancel = Some(cancel);
        self
    }
}

/// Whether the body runs in [fallback](Ladder::fallback): nothing smaller was left, and it should use
/// another memory now, such as the CPU's.
///
/// From then on that is so to the end of the call, and in loops inside the body, too. But where sizes are
/// [costs](crate::execute::With::by_cost) it is so for a single item that failed alone above the floor, and then
/// no more: that it is too heavy says nothing of the others. One that fails there, too, is left out. Nothing is
/// remembered of sizes in fallback, and they begin with `initial`. Outside of attempts it is never so,
/// and neither is it in threads that the body starts: hand them the answer.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::ladder::{Ladder, falls_back};
/// use toma::{cache::GlobalCache, classify::OutOfMemory, execute};
///
/// let form = execute::with::<GlobalCache>().ladder(Ladder::default().fallback(true));
/// let sizes = form.map(0..8, 4, |start, end| {
///     if falls_back() { Ok(end - start) } else { Err(OutOfMemory::new(None)) }
/// })?;
/// assert_eq!(sizes, [4, 4]);
/// assert!(!falls_back());
/// # Ok::<(), OutOfMemory>(())
/// ```
#[must_use]
pub fn falls_back() -> bool {
    Surroundings::now().marks.falls_back()
}

/// Why the same size is tried once more.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// The failure was transient.
    Transient,
    /// Cached memory is released.
    Release,
    /// Others used the device meanwhile: it will have it to itself.
    Alone,
    /// The release hooks are asked.
    Hooks,
}

impl Rung {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Release => "release",
            Self::Alone => "alone",
            Self::Hooks => "hooks",
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
