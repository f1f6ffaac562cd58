//! Attributes, documentation and visibility of a function are kept.

use toma::{GlobalCache, NoCache};

use crate::attributes::{allocate_or_panic, failures};

/// A function with all kinds of attributes.
///
/// Its documentation has more than one line.
#[inline]
#[must_use]
#[cfg(test)]
#[toma::batch(initial = 16, cache = NoCache)]
#[cold]
#[expect(unused_variables, reason = "an attribute that fails to compile when it is lost")]
#[doc = concat!("Documentation of the ", "other kind.")]
pub(crate) fn decorated(size: usize) -> usize {
    let unused = 0;
    allocate_or_panic(size, 8);
    size
}

#[toma::batch(initial = 16, cache = NoCache)]
#[cfg(any())]
fn left_out(size: Missing) -> Missing {}

#[cfg(any())]
#[toma::batch(initial = 16, cache = NoCache)]
fn left_out(size: Missing) -> Missing {}

#[cfg_attr(all(), toma::batch(initial = 16, cache = NoCache))]
fn conditional(size: usize) -> usize {
    allocate_or_panic(size, 4);
    size
}

fn left_out() -> &'static str {
    "the other functions of this name are not there"
}

mod visible {
    use toma::NoCache;

    #[toma::batch(initial = 16, cache = NoCache)]
    pub(super) fn from_outside(size: usize) -> usize {
        crate::attributes::allocate_or_panic(size, 2);
        size
    }
}

#[test]
fn attributes_stay() {
    assert_eq!(decorated(), 8);
    assert_eq!(conditional(), 4);
    assert_eq!(visible::from_outside(), 2);
    assert!(left_out().ends_with("not there"));
}

#[toma::batch(initial = 16)]
fn line(size: usize) -> &'static std::panic::Location<'static> {
    let _ = size;
    std::panic::Location::caller()
}

/// The attribute gives `#[track_caller]` to the function; a second one is no mistake.
#[track_caller]
#[toma::batch(initial = 16)]
fn tracked(size: usize) -> usize {
    allocate_or_panic(size, 8);
    size
}

#[test]
fn lines_that_call_are_kept_apart() {
    for _ in 0..2 {
        tracked();
    }
    assert_eq!(failures(), 0, "the second round knew");
    tracked();
    assert_eq!(failures(), 1, "another line did not");
    assert_eq!(line().file(), file!());
}

#[toma::batch(initial = 16, cache = GlobalCache)]
#[allow(clippy::needless_pass_by_value, reason = "the attribute of the user is the one that counts")]
fn allowed(size: usize, text: String) -> usize {
    allocate_or_panic(size, text.len());
    size
}

#[test]
fn lints_are_the_users() {
    assert_eq!(allowed(String::from("1234")), 4);
}
