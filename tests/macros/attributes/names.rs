//! Names in the expansion do not collide with names of the user.

#![allow(non_camel_case_types, reason = "these names are taken on purpose")]

use crate::attributes::allocate_or_panic;

/// A module in which the usual names have another meaning.
mod taken {
    #![allow(dead_code, unused_macros, reason = "they only have to be in the way")]

    pub(super) struct Option;
    pub(super) struct Result;
    pub(super) struct Some;
    pub(super) struct None;
    pub(super) struct Ok;
    pub(super) struct usize;
    pub(super) mod core {}
    pub(super) mod std {}
    pub(super) mod toma {}

    macro_rules! concat {
        () => {};
    }
    macro_rules! module_path {
        () => {};
    }

    #[::toma::range(initial = 16, cache = ::toma::NoCache, before_retry = out.clear())]
    pub(super) fn range(start: i64, end: i64, out: &mut ::std::vec::Vec<i64>) {
        out.extend(start..end);
        super::allocate_or_panic(end - start, 8);
    }

    #[::toma::batch(initial = 16, cache = ::toma::NoCache)]
    pub(super) async fn batch(size: i64) -> i64 {
        super::allocate_or_panic(size, 8);
        size
    }
}

#[test]
fn taken_names_do_not_matter() {
    let mut out = Vec::new();
    taken::range(0, 8, &mut out);
    taken::range(8, 24, &mut out);
    assert_eq!(out, (8..24).collect::<Vec<_>>(), "undone with the failed attempt");
    assert_eq!(crate::executor::block_on(taken::batch()), 8);
}

/// Names that the expansion uses, and names that are keywords elsewhere.
#[toma::batch(initial = __toma_call, cache = toma::NoCache)]
fn parameters(
    __toma_size: usize,
    __toma_call: usize,
    __toma_outcome: usize,
    body: usize,
    r#type: usize,
) -> [usize; 5] {
    allocate_or_panic(__toma_size, 8);
    [__toma_size, __toma_call, __toma_outcome, body, r#type]
}

#[toma::batch(initial = 16, cache = toma::NoCache)]
fn r#try(size: usize) -> usize {
    allocate_or_panic(size, 8);
    size
}

#[toma::chunked(initial = 16, cache = toma::NoCache, name = format!("{label} of {}", data.len()))]
fn labeled(data: &[u8], start: usize, end: usize, label: &str) {
    assert_eq!(data.len(), end - start);
    assert_eq!(label, "chunk");
}

#[test]
fn parameters_have_any_name() {
    assert_eq!(parameters(16, 2, 3, 4), [8, 16, 2, 3, 4]);
    assert_eq!(r#try(), 8);
    assert_eq!(toma::report::last().unwrap().name.to_string(), "macros::attributes::names::try");
    labeled(&[0; 40], "chunk");
    assert_eq!(toma::report::last().unwrap().name.to_string(), "chunk of 40");
}
