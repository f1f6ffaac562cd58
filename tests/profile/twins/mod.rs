//! Functions that are compiled twice, without and with marks, and must do the same.
//!
//! Each group is a macro that gets the mark, or nothing, and has a table of its cases. Compiled in both editions: by
//! the test `profile`, and by the fixture `marks-2021`.

#![deny(warnings)]
#![allow(unsafe_code, reason = "unsafe functions and blocks are marked, too")]
#![allow(
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    clippy::undocumented_unsafe_blocks,
    reason = "everything that can be written has to work, and the compiler's own lints are what marks must not raise"
)]

mod asynchronous;
mod bodies;
mod drops;
mod functions;
mod kit;

/// A case: its name, and what it answers.
pub(crate) type Case = (&'static str, fn() -> String);

/// The cases of every group, unmarked and marked.
pub(crate) fn all() -> Vec<(Vec<Case>, Vec<Case>)> {
    vec![
        (bodies::plain::cases(), bodies::marked::cases()),
        (functions::plain::cases(), functions::marked::cases()),
        (drops::plain::cases(), drops::marked::cases()),
        (asynchronous::plain::cases(), asynchronous::marked::cases()),
    ]
}

/// Runs every case both ways, and says how many there were.
///
/// # Panics
///
/// When a case does not do the same with marks.
pub(crate) fn compare() -> usize {
    let pairs = all().into_iter().flat_map(|(plain, marked)| plain.into_iter().zip(marked));
    let pairs = pairs.map(|((name, plain), (_, marked))| {
        assert_eq!(kit::run(plain), kit::run(marked), "{name}");
    });
    pairs.count()
}

/// The cases of a group, by the names of their functions.
macro_rules! table {
    ($($case:ident)*) => {
        pub(crate) fn cases() -> Vec<$crate::twins::Case> {
            vec![$((stringify!($case), || format!("{:?}", $case()))),*]
        }
    };
}
use table;

/// The modules `plain` and `marked` of a group.
macro_rules! both {
    ($group:ident) => {
        pub(crate) mod plain {
            $group!();
        }
        pub(crate) mod marked {
            $group!(#[toma::profile]);
        }
    };
}
use both;
