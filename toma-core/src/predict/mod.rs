//! Sizes found before the first run.
//!
//! A dry run calls the body on values that have shapes and no memory, and records what it would allocate.
//! How that is done is a library's business; this module only knows that it is being done.

use std::fmt;

use crate::classify::{Class, classify_panic};
use crate::memory::MemorySource;
use crate::shield::{self, Panic};

#[doc(hidden)]
pub use crate::text::{bytes as bytes_for_people, print as say};

/// Says what fits before anything was tried: what the option [`predict`](crate::execute::With::predict) takes.
///
/// It chooses the first size of a call about which the size cache knows nothing. Everything after that goes by
/// what was tried.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::predict::{Foreseen, Predict};
/// use toma::{cache::NoCache, execute, memory::Host, report};
///
/// /// Items of a megabyte each.
/// #[derive(Debug)]
/// struct Megabytes;
///
/// impl Predict for Megabytes {
///     fn foresee(&self, items: Option<usize>, free_bytes: u64) -> Option<Foreseen> {
///         let most = usize::try_from(free_bytes >> 20).ok()?;
///         let size = most.min(items.unwrap_or(most));
///         Some(Foreseen { size, needs_bytes: (size as u64) << 20 })
///     }
/// }
///
/// execute::with::<NoCache>().device(Host::shared()).predict(&Megabytes).range(0..3, 3, |_, _| ());
/// assert_eq!(report::last().unwrap().foreseen.unwrap().needs_bytes, 3 << 20);
/// ```
pub trait Predict: fmt::Debug + Sync {
    /// The largest size in which so many items fit into so many free bytes, piece by piece; without
    /// items, what fits at once. `None` where that is not known.
    fn foresee(&self, items: Option<usize>, free_bytes: u64) -> Option<Foreseen>;

    /// Whether it says nothing by itself, and forms that know how run the body dry.
    #[doc(hidden)]
    fn runs_dry(&self) -> bool {
        false
    }
}

/// A size that is said to fit, and what it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made outside of this crate")]
pub struct Foreseen {
    /// In items, or in costs where sizes count costs.
    pub size: usize,
    /// The most bytes that live at once, beyond those there are now.
    pub needs_bytes: u64,
}

/// What `predict` says of this memory as it is now.
pub(crate) fn foresee(
    predict: &dyn Predict,
    device: &dyn MemorySource,
    items: Option<usize>,
) -> Option<crate::report::Foreseen> {
    let free_bytes = device.read().ok()?.free_bytes;
    let Foreseen { size, needs_bytes } = predict.foresee(items, free_bytes)?;
    Some(crate::report::Foreseen { size, needs_bytes, free_bytes })
}

/// Whether this thread makes a dry run.
///
/// Nothing is computed then, and what libraries are asked for is not done. A body asks where it does
/// something that a library cannot take back: a count, a line in a log, a file.
///
/// ```
/// # extern crate toma_core as toma;
/// let mut steps = 0;
/// if !toma::predict::is_dry() {
///     steps += 1;
/// }
/// assert_eq!(steps, 1);
/// ```
pub fn is_dry() -> bool {
    shield::is_dry()
}

/// Calls `body` as a dry run. Its panics are not printed; one that comes out of it comes back as a value.
///
/// For libraries that make dry runs.
///
/// # Errors
/// The panic of the body.
#[doc(hidden)]
pub fn run_dry<R>(body: impl FnOnce() -> R) -> Result<R, DryPanic> {
    shield::run_dry(body).map_err(DryPanic)
}

/// A panic that came out of a dry run, and has not been printed.
#[doc(hidden)]
#[must_use = "a panic that is not passed on is lost"]
pub struct DryPanic(Panic);

impl DryPanic {
    /// What it says, if memory ran out: that of a real run need not.
    pub fn out_of_memory(&self) -> Option<String> {
        let failure = classify_panic(&*self.0.payload);
        (failure.class == Class::OutOfMemory).then(|| failure.message.into_owned())
    }

    /// Lets it go on, printed once.
    pub fn pass_on(self) -> ! {
        shield::pass_on(self.0)
    }
}

impl fmt::Debug for DryPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DryPanic").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::GlobalCache;
    use crate::classify::OutOfMemory;
    use crate::execute;
    use crate::memory::Host;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Says that so many items fit.
    #[derive(Debug)]
    struct Fit(usize);

    impl Predict for Fit {
        fn foresee(&self, _: Option<usize>, free_bytes: u64) -> Option<Foreseen> {
            assert!(free_bytes > 0);
            (self.0 > 0).then_some(Foreseen { size: self.0, needs_bytes: 1 })
        }
    }

    fn sizes(cache: &GlobalCache, fit: usize, limit: usize) -> Vec<usize> {
        let mut sizes = Vec::new();
        let with = execute::with::<GlobalCache>().cache(cache).device(Host::shared()).max(64);
        let fit = Fit(fit);
        let with = with.predict(&fit);
        let result = with.range(0..100, 100, |start, end| {
            sizes.push(end - start);
            if end - start > limit { Err(OutOfMemory::new(None)) } else { Ok(()) }
        });
        result.unwrap();
        sizes
    }

    #[test]
    fn it_sets_the_first_size_and_evidence_beats_it() {
        let cache = GlobalCache::new();
        assert_eq!(sizes(&cache, 40, 100), [40, 40, 20]);
        assert_eq!(sizes(&cache, 1000, 100), [64, 36], "never beyond the largest");
        assert_eq!(sizes(&cache, 0, 100), [64, 36], "nothing is known");
        assert_eq!(sizes(&cache, 40, 30)[..2], [40, 20], "it was wrong");
        assert_eq!(sizes(&cache, 40, 30), [20; 5], "what worked is remembered");
    }

    #[test]
    fn a_loop_in_a_dry_run_runs_once_and_learns_nothing() {
        let (cache, mut attempts) = (GlobalCache::new(), 0);
        let failed = run_dry(|| {
            let with = execute::with::<GlobalCache>().cache(&cache);
            with.range(0..8, 8, |_, _| {
                attempts += 1;
                Err(OutOfMemory::new(None))
            })
        });
        assert!(failed.unwrap().is_err());
        assert_eq!((attempts, cache.entries().len()), (1, 0));
    }

    #[test]
    fn the_mark_is_there_while_the_body_runs_and_goes_with_a_panic() {
        assert!(!is_dry());
        assert!(run_dry(is_dry).unwrap());
        let panic = run_dry(|| panic!("of the body")).unwrap_err();
        assert!(!is_dry());
        assert_eq!(panic.out_of_memory(), None);
        let passed_on = catch_unwind(AssertUnwindSafe(|| panic.pass_on())).unwrap_err();
        assert_eq!(passed_on.downcast_ref(), Some(&"of the body"));
        let panic = run_dry(|| panic!("CUDA out of memory. Tried to allocate 2.00 GiB")).unwrap_err();
        assert!(panic.out_of_memory().unwrap().starts_with("CUDA out of memory"));
    }

    #[test]
    fn a_dry_run_within_another_leaves_the_mark_to_it() {
        let marks = run_dry(|| (run_dry(is_dry).unwrap(), is_dry())).unwrap();
        assert_eq!((marks, is_dry()), ((true, true), false));
    }

    #[test]
    fn another_thread_makes_none() {
        let elsewhere = run_dry(|| std::thread::spawn(is_dry).join().unwrap()).unwrap();
        assert!(!elsewhere);
    }
}
