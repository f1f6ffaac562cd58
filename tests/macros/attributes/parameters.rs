//! Patterns and attributes on parameters.

use toma::NoCache;

use crate::attributes::{allocate_or_panic, failures};

#[derive(Clone, Copy)]
struct Point {
    x: usize,
    y: usize,
}

#[toma::batch(initial = 16, cache = NoCache)]
fn patterns(
    mut size: usize,
    (a, b): (usize, usize),
    Point { x, y: second }: Point,
    [first, .., last]: [usize; 4],
    &borrowed: &usize,
    _: &str,
) -> [usize; 8] {
    allocate_or_panic(size, 8);
    size += 1;
    [size, a, b, x, second, first, last, borrowed]
}

#[toma::range(initial = 16, cache = NoCache)]
fn ignored_start(_: usize, end: usize, ends: &mut Vec<usize>) {
    ends.push(end);
}

#[toma::range(initial = 16, cache = NoCache)]
fn changed(mut start: usize, mut end: usize, seen: &mut Vec<usize>) {
    allocate_or_panic(end - start, 8);
    start += 100;
    end += 100;
    seen.extend(start..end);
}

#[toma::chunked(initial = 16, cache = NoCache)]
fn pair((from, to): (&[u8], &mut [u8]), start @ _: usize, _end: usize, starts: &mut Vec<usize>) {
    allocate_or_panic(from.len(), 8);
    to.copy_from_slice(from);
    starts.push(start);
}

#[toma::chunked(initial = 16, cache = NoCache)]
fn ignored_data(_: &[u8], start: i64, end: i64, items: &mut i64) {
    *items += end - start;
}

#[toma::chunked(initial = 16, cache = NoCache)]
fn shortened(mut data: &[u8], _start: i64, _end: i64, sum: &mut usize) {
    allocate_or_panic(data.len(), 8);
    while let Some((first, rest)) = data.split_first() {
        *sum += usize::from(*first);
        data = rest;
    }
}

#[test]
fn patterns_are_allowed_everywhere() {
    let point = Point { x: 3, y: 4 };
    assert_eq!(patterns((1, 2), point, [5, 0, 0, 6], &7, ""), [9, 1, 2, 3, 4, 5, 6, 7]);
    let mut ends = Vec::new();
    ignored_start(0, 40, &mut ends);
    assert_eq!(ends, [16, 32, 40]);
    let mut seen = Vec::new();
    changed(0, 40, &mut seen);
    assert_eq!(seen, (100..140).collect::<Vec<_>>());
}

#[test]
fn patterns_of_data() {
    let (from, mut to, mut starts) = ([9; 20], [0; 20], Vec::new());
    pair((&from, &mut to), &mut starts);
    assert_eq!((to, starts, failures()), (from, vec![0, 8, 16], 1));
    let mut items = 0;
    ignored_data(&[0; 40], &mut items);
    assert_eq!(items, 40);
    let mut sum = 0;
    shortened(&[2; 40], &mut sum);
    assert_eq!((sum, failures()), (80, 1));
}

#[toma::batch(initial = 16, cache = NoCache)]
fn attributes(
    #[allow(unused_variables, reason = "the size may carry attributes too")] size: usize,
    #[cfg(any())] left_out: Missing,
    #[cfg(test)] there: usize,
    #[allow(unused_mut, reason = "on another parameter")] mut last: usize,
) -> usize {
    there + last
}

#[test]
fn attributes_of_parameters() {
    assert_eq!(attributes(1, 2), 3);
}
