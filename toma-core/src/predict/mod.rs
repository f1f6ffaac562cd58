//! Sizes found before the first run.
//!
//! A dry run calls the body on values that have shapes and no memory, and records what it would allocate.
//! How that is done is a library's business; this module only knows that it is being done.

use std::fmt;

use crate::shield::{self, Panic};

#[doc(hidden)]
pub use crate::text::bytes as bytes_for_people;

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
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn the_mark_is_there_while_the_body_runs_and_goes_with_a_panic() {
        assert!(!is_dry());
        assert!(run_dry(is_dry).unwrap());
        let panic = run_dry(|| panic!("of the body")).unwrap_err();
        assert!(!is_dry());
        let passed_on = catch_unwind(AssertUnwindSafe(|| panic.pass_on())).unwrap_err();
        assert_eq!(passed_on.downcast_ref(), Some(&"of the body"));
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
