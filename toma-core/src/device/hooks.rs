//! Hooks that give memory back when it has run out.

use std::cell::Cell;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::contained::contained;
use crate::switches::Switches;
use crate::text;

type List = Arc<[Arc<Hook>]>;

/// The registered hooks. The list is replaced, never changed, so a call clones a handle without allocating, and
/// holds no lock while hooks run.
static HOOKS: Mutex<Option<List>> = Mutex::new(None);

thread_local! {
    /// True while a hook runs on this thread. Loops inside it ask no hooks, because that would never end.
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

/// A shortage of memory, as hooks see it.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::device;
///
/// let _hooked = device::on_release(|pressure| {
///     println!("{}: {} items, {:?} bytes requested", pressure.device, pressure.size, pressure.requested_bytes);
///     false // nothing to give back
/// });
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct Pressure<'a> {
    /// The name of the memory source; the host's for calls without the option `device`.
    pub device: &'a str,
    /// Bytes that the failed allocation requested, if known.
    pub requested_bytes: Option<u64>,
    /// Free bytes after the attempt had failed, if known.
    pub free_bytes: Option<u64>,
    /// The size that failed, in items or in [cost units](crate::execute::With::by_cost).
    pub size: usize,
}

/// Registers a hook that gives memory back when a call of this process runs out of it, until the guard is dropped.
///
/// A hook returns true if it gave memory back. If any hook did, the same size is tried again, otherwise a smaller
/// one. Hooks are asked once per piece, in the order of registration, on the thread of the call: after the failed
/// attempt's values are dropped and undone, and with no lock held. Loops inside a hook ask no hooks, and do not
/// wait for the call that asks. Calls that began before any hook was registered ask none, unless they have the
/// option `device` or `ladder`.
///
/// A hook that panics is not asked again. A call that asks hooks while the guard is dropped may still ask this one.
///
/// ```
/// # extern crate toma_core as toma;
/// use std::sync::Mutex;
/// use toma::{NoCache, classify::OutOfMemory, device, execute};
///
/// static THUMBNAILS: Mutex<Vec<u8>> = Mutex::new(Vec::new());
/// THUMBNAILS.lock().unwrap().resize(1000, 0);
///
/// let _hooked = device::on_release(|_pressure| {
///     let freed = std::mem::take(&mut *THUMBNAILS.lock().unwrap());
///     !freed.is_empty()
/// });
/// let size = execute::with::<NoCache>().batch(8, |batch_size| {
///     if THUMBNAILS.lock().unwrap().is_empty() { Ok(batch_size) } else { Err(OutOfMemory::new(None)) }
/// })?;
/// assert_eq!(size, 8);
/// # Ok::<(), OutOfMemory>(())
/// ```
pub fn on_release(hook: impl Fn(&Pressure<'_>) -> bool + Send + Sync + 'static) -> Hooked {
    let hook = Arc::new(Hook { asks: Box::new(hook), has_panicked: AtomicBool::new(false) });
    let added = Arc::clone(&hook);
    replace(move |hooks| hooks.iter().cloned().chain([added]).collect());
    Hooked { hook }
}

/// Ends the registration of a hook when dropped.
///
/// ```
/// # extern crate toma_core as toma;
/// use std::sync::Mutex;
/// use toma::device;
///
/// static CACHE: Mutex<Vec<u8>> = Mutex::new(Vec::new());
///
/// let hooked = device::on_release(|_| !std::mem::take(&mut *CACHE.lock().unwrap()).is_empty());
/// // ... loops that may take the cache's memory ...
/// drop(hooked);
/// ```
#[must_use = "the hook is not asked any more when the guard is dropped"]
pub struct Hooked {
    hook: Arc<Hook>,
}

struct Hook {
    asks: Box<dyn Fn(&Pressure<'_>) -> bool + Send + Sync>,
    has_panicked: AtomicBool,
}

impl Drop for Hooked {
    fn drop(&mut self) {
        replace(|hooks| hooks.iter().filter(|other| !Arc::ptr_eq(other, &self.hook)).cloned().collect());
    }
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_panicked = self.hook.has_panicked.load(Relaxed);
        f.debug_struct("Hooked").field("has_panicked", &has_panicked).finish_non_exhaustive()
    }
}

/// True if there is a hook that this thread may ask.
pub(crate) fn is_registered() -> bool {
    !ASKING.get() && Switches::load().has(Switches::HOOKED)
}

/// Asks all hooks. True if any gave memory back.
pub(crate) fn ask(pressure: &Pressure<'_>) -> bool {
    let Some(hooks) = hooks().clone() else { return false };
    ASKING.set(true);
    // Asks all of them, even if the first gives memory back.
    let given = hooks.iter().filter(|hook| hook.ask(pressure)).count();
    ASKING.set(false);
    given > 0
}

impl Hook {
    fn ask(&self, pressure: &Pressure<'_>) -> bool {
        if self.has_panicked.load(Relaxed) {
            return false;
        }
        contained(|| (self.asks)(pressure)).unwrap_or_else(|| {
            self.has_panicked.store(true, Relaxed);
            text::print("toma: a release hook panicked and is not asked again");
            false
        })
    }
}

fn replace(change: impl FnOnce(&[Arc<Hook>]) -> List) {
    let mut hooks = hooks();
    let changed = change(hooks.as_deref().unwrap_or_default());
    Switches::set(Switches::HOOKED, !changed.is_empty());
    let old = mem::replace(&mut *hooks, Some(changed).filter(|changed| !changed.is_empty()));
    // A hook may have captured any value, so it is dropped without the lock.
    drop(hooks);
    drop(old);
}

fn hooks() -> MutexGuard<'static, Option<List>> {
    HOOKS.lock().unwrap_or_else(PoisonError::into_inner)
}
