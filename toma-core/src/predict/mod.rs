//! Sizes found before the first run.
//!
//! A dry run calls the body on values that have shapes and no memory, and records the bytes that it would allocate.
//! Libraries make dry runs; this module only knows that one is in progress.

#[cfg(all(test, feature = "testing"))]
mod call_tests;
mod dry_call;

use std::fmt;
use std::time::{Duration, Instant};

pub(crate) use dry_call::{Asks, Cuts, DryBody, Followed};
pub use dry_call::{DryCall, Predict};

use crate::classify::{Class, classify_panic};
use crate::shield::{self, Panic};

#[doc(hidden)]
pub use crate::text::{bytes as bytes_for_people, print};

/// Predicted memory of one piece.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made by libraries")]
pub struct Piece {
    /// Peak of live bytes.
    pub needs_bytes: u64,
    /// Bytes that each item adds to the peak.
    pub per_item_bytes: u64,
}

/// Result of a predicted size, from which the prediction learns.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "read by libraries")]
pub enum Shown {
    /// An attempt succeeded. `peak_bytes`: most bytes it had allocated at one time beyond those before, if measured.
    Took { size: usize, is_first: bool, peak_bytes: Option<u64> },
    /// An attempt ran out of memory. Reported at once, for the first such attempt of a call.
    RanOut,
    /// Attempts ran out of memory in a call that could use `free_bytes`. Reported once, when the call ends: the
    /// smallest size that failed, and the largest below it that succeeded after that.
    Failed { size: usize, works: Option<usize>, items: Option<usize>, free_bytes: u64 },
    /// The call has ended; `elapsed` counts from its first attempt on. Reported last, even if nothing was predicted.
    Ended { elapsed: Duration },
}

/// A size that is predicted to fit, and its memory.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::predict::PredictedSize;
///
/// /// The size that fits, where each item takes a megabyte.
/// fn predict(free_bytes: u64) -> PredictedSize {
///     let size = free_bytes >> 20;
///     PredictedSize { size: size as usize, needs_bytes: size << 20 }
/// }
/// assert_eq!(predict(10_000_000).size, 9);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made outside of this crate")]
pub struct PredictedSize {
    /// Size in items, or in costs where sizes count costs.
    pub size: usize,
    /// Peak of live bytes, beyond those that are live now.
    pub needs_bytes: u64,
}

/// The engine's clock.
#[doc(hidden)]
pub fn now() -> Instant {
    crate::clock::now()
}

/// Returns true if this thread makes a dry run.
///
/// Nothing is computed in a dry run, and operations of libraries are not carried out. A body calls this where it does
/// something that a library cannot undo: a count, a line in a log, a file.
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

/// Calls `body` as a dry run. Its panics are not printed; one that leaves it is returned as a value.
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
    /// Returns the panic's message if it means that memory ran out. A real run need not run out of it.
    pub fn out_of_memory(&self) -> Option<String> {
        let failure = classify_panic(&*self.0.payload);
        (failure.class == Class::OutOfMemory).then(|| failure.message.into_owned())
    }

    /// Continues the panic, printed once.
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
    use crate::GlobalCache;
    use crate::classify::OutOfMemory;
    use crate::execute;
    use crate::memory::Host;
    use std::cell::{Cell, RefCell};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Predicts that so many items fit.
    #[derive(Debug)]
    struct Fit(usize);

    impl Predict for Fit {
        fn predict(&self, _: Option<usize>, free_bytes: u64) -> Option<PredictedSize> {
            assert!(free_bytes > 0);
            (self.0 > 0).then_some(PredictedSize { size: self.0, needs_bytes: 1 })
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
        assert_eq!(crate::report::last().unwrap().predicted.unwrap().size, 64);
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

    /// Runs the body twice at each of two sizes, and predicts that so many items fit.
    #[derive(Debug)]
    struct RunsDry(usize);

    impl Predict for RunsDry {
        fn predict(&self, _: Option<usize>, _: u64) -> Option<PredictedSize> {
            None
        }

        fn predict_dry(&self, call: &mut DryCall<'_>) -> Option<PredictedSize> {
            for size in call.sizes(8)? {
                let ran = run_dry(|| {
                    let ran = [(); 2].map(|()| call.run(size));
                    call.take_back();
                    ran
                });
                assert!(ran.unwrap().iter().all(Result::is_ok));
            }
            (self.0 > 0).then_some(PredictedSize { size: self.0, needs_bytes: 1 })
        }
    }

    /// Value that counts itself, and must be dropped in a dry run exactly if it was made in one.
    struct Held<'c>(&'c Cell<usize>, bool);

    impl Drop for Held<'_> {
        fn drop(&mut self) {
            assert_eq!(is_dry(), self.1);
            self.0.set(self.0.get() - 1);
        }
    }

    #[test]
    fn map_holds_its_values_as_long_as_a_dry_run_lasts() {
        let (cache, living) = (GlobalCache::new(), Cell::new(0));
        let most = Cell::new([0; 2]);
        let form = execute::with::<GlobalCache>().cache(&cache).device(Host::shared()).predict(&RunsDry(4));
        let values = form.map(0..12, 12, |_, _| {
            living.set(living.get() + 1);
            let [dry, real] = most.get();
            most.set(if is_dry() { [living.get().max(dry), real] } else { [dry, living.get().max(real)] });
            crate::Plain(Held(&living, is_dry()))
        });
        assert_eq!((values.len(), living.get(), most.get()), (3, 3, [2, 3]));
    }

    #[test]
    fn fold_begins_again_with_its_first_value() {
        let cache = GlobalCache::new();
        let form = execute::with::<GlobalCache>().cache(&cache).device(Host::shared()).predict(&RunsDry(3));
        let sums = RefCell::new(Vec::new());
        let sum = form.fold(0..6, 6, 100, |sum, start, end| {
            sums.borrow_mut().push(*sum);
            sum + (start..end).sum::<usize>()
        });
        assert_eq!(sum, 115);
        // Twice 0 + 1 + 2, twice 0 + .. + 5, and the pieces themselves.
        assert_eq!(sums.into_inner(), [100, 103, 100, 115, 100, 103]);
    }

    #[test]
    fn a_remembered_or_too_small_call_is_not_run_dry() {
        let cache = GlobalCache::new();
        let dry = |items: usize| {
            let (mut dry, with) = (0, execute::with::<GlobalCache>().cache(&cache).name("step"));
            with.device(Host::shared()).predict(&RunsDry(0)).range(0..items, items.max(1), |_, _| {
                dry += usize::from(is_dry());
            });
            dry
        };
        assert_eq!([0, 1, 2, 8].map(dry), [0, 0, 4, 4]);
        cache.seed("step", 8);
        assert_eq!(dry(8), 0);
    }

    #[test]
    #[should_panic(expected = "step: predict without device: name the device whose memory the size must fit")]
    fn a_device_has_to_be_given() {
        execute::with::<GlobalCache>().name("step").predict(&RunsDry(1)).range(0..2, 2, |_, _| ());
    }
}
