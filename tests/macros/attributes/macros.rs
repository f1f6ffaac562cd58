//! Functions that `macro_rules` generates.

use toma::NoCache;

use crate::attributes::{allocate_or_panic, failures};

macro_rules! assembled {
    (
        $form:ident, ($($options:tt)*);
        $vis:vis fn $name:ident($($parameter:pat => $ty:ty),*) -> $output:ty $body:block
    ) => {
        #[toma::$form($($options)*)]
        $vis fn $name($($parameter: $ty),*) -> $output $body
    };
}

assembled! {
    batch, (initial = 16, cache = NoCache);
    pub(crate) fn from_fragments(mut size => usize, (a, b) => (i64, i64)) -> Option<(usize, i64)> {
        allocate_or_panic(size, 8);
        size += 1;
        let sum = a.checked_add(b)?;
        Some((size, sum))
    }
}

assembled! {
    chunked, (initial = 16, cache = NoCache, before_retry = data.fill(0));
    fn chunked_from_fragments(data => &mut [u8], start => i64, end => i64) -> () {
        data[0] += 1;
        data[1..].fill(1);
        allocate_or_panic(end - start, 8);
    }
}

macro_rules! with_expressions {
    ($name:ident, $initial:expr, $min:expr, $cache:ty, $limit:literal) => {
        #[toma::batch(initial = $initial, min = $min, cache = $cache)]
        fn $name(size: i64) -> i64 {
            allocate_or_panic(size, $limit);
            size
        }
    };
}

with_expressions!(from_expressions, 4 * 4, 1 + 1, NoCache, 2);

#[test]
fn every_fragment_arrives() {
    assert_eq!(from_fragments((1, 2)), Some((9, 3)));
    assert_eq!(from_fragments((i64::MAX, 2)), None);
    let mut data = [0; 20];
    chunked_from_fragments(&mut data);
    assert_eq!((data, failures()), ([1; 20], 1));
    assert_eq!(from_expressions(), 2);
}

/// A macro whose own names do not mix with the caller's.
macro_rules! hygienic {
    ($size:ident, $body:expr) => {{
        #[toma::batch(initial = 16, cache = NoCache)]
        fn run($size: usize, size_of_macro: usize) -> usize {
            allocate_or_panic($size, 4);
            $body + size_of_macro
        }
        run(100)
    }};
}

#[test]
fn names_of_a_macro_and_of_its_caller_do_not_mix() {
    assert_eq!(hygienic!(size, size * 2), 108);
}
