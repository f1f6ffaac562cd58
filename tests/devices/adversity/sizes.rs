//! The largest and the smallest possible sizes.

use std::panic::catch_unwind;

use toma::classify::OutOfMemory;
use toma::{NoCache, execute, report};

use crate::executor::block_on;

const ALL: usize = usize::MAX;

#[test]
fn the_largest_range_is_one_piece_or_two() {
    let mut pieces = Vec::new();
    execute::with::<NoCache>().range(0..ALL, ALL, |start, end| pieces.push((start, end)));
    execute::with::<NoCache>().range(0..ALL, ALL - 1, |start, end| pieces.push((start, end)));
    execute::with::<NoCache>().range(ALL - 3..ALL, 2, |start, end| pieces.push((start, end)));
    execute::with::<NoCache>().range(ALL..ALL, ALL, |start, end| pieces.push((start, end)));
    assert_eq!(pieces, [(0, ALL), (0, ALL - 1), (ALL - 1, ALL), (ALL - 3, ALL - 1), (ALL - 1, ALL)]);
    let sum = execute::with::<NoCache>().fold(1..ALL, ALL, 0, |sum, start, end| sum + (end - start));
    assert_eq!(sum, ALL - 1);
}

#[test]
fn the_largest_options_stand() {
    let with = || execute::with::<NoCache>().min(ALL).max(ALL).multiple_of(ALL).max_attempts(ALL);
    assert_eq!(with().batch(ALL, |size| size), ALL);
    let mut attempts = 0;
    let ended = with().batch(ALL, |_| {
        attempts += 1;
        Err::<(), _>(OutOfMemory::new(Some(u64::MAX)))
    });
    assert_eq!((ended, attempts), (Err(OutOfMemory::new(Some(u64::MAX))), 1));
}

#[toma::range(initial = i64::MAX, cache = NoCache)]
fn of_i64(start: i64, end: i64, pieces: &mut Vec<(i64, i64)>) -> Result<(), std::io::Error> {
    pieces.push((start, end));
    if pieces.len() < 4 {
        return Err(std::io::ErrorKind::OutOfMemory.into());
    }
    if pieces.len() > 6 { Err(std::io::Error::other("enough")) } else { Ok(()) }
}

#[toma::range(cache = NoCache)]
fn all_of_i64(start: i64, end: i64, pieces: &mut Vec<(i64, i64)>) {
    pieces.push((start, end));
}

#[toma::range(initial = i64::MAX, cache = NoCache)]
async fn all_of_i64_async(start: i64, end: i64, pieces: &mut Vec<(i64, i64)>) {
    pieces.push((start, end));
}

#[toma::batch(initial = i64::MAX, cache = NoCache)]
fn batch_of_i64(size: i64) -> Result<i64, OutOfMemory> {
    if size > 1 { Err(OutOfMemory::new(None)) } else { Ok(size) }
}

#[test]
fn i64_spans_all_its_values() {
    const MIN: i64 = i64::MIN;
    const MAX: i64 = i64::MAX;
    let mut pieces = Vec::new();
    all_of_i64(MIN, MAX, &mut pieces);
    assert_eq!(pieces, [(MIN, MAX)]);
    pieces.clear();
    block_on(all_of_i64_async(MIN, MAX, &mut pieces));
    assert_eq!(pieces, [(MIN, -1), (-1, MAX - 1), (MAX - 1, MAX)]);
    pieces.clear();
    let ended = of_i64(MIN, MAX, &mut pieces);
    assert_eq!(ended.unwrap_err().to_string(), "enough");
    let eighth = MAX / 8;
    let ends = [MAX, MAX / 2, MAX / 4].map(|length| (MIN, MIN + length));
    let rest = [0, 1, 2, 3].map(|piece| (MIN + piece * eighth, MIN + (piece + 1) * eighth));
    assert_eq!(pieces, [&ends[..], &rest[..]].concat());
    assert_eq!(batch_of_i64(), Ok(1));
}

#[toma::chunked(initial = 4, cache = NoCache)]
fn chunked(data: (&[u8], &mut [u8]), start: usize, end: usize) {
    unreachable!("{data:?} {start} {end}");
}

fn never(start: usize, end: usize) {
    unreachable!("called for {start}..{end}");
}

#[test]
fn of_nothing_nothing_is_called() {
    let with = || execute::with::<NoCache>().min(2).multiple_of(2);
    with().range(5..5, 4, never);
    with().range(0..0, ALL, never);
    with().chunked(&[0_u8; 0][..], 4, |_, start, end| never(start, end));
    with().chunked(&mut [0_u8; 0][..], 4, |_, start, end| never(start, end));
    assert_eq!(with().map(7..7, 4, |_, _| -> usize { unreachable!() }), [0; 0]);
    assert_eq!(with().map(7..7, 4, |_, _| -> Result<u8, OutOfMemory> { unreachable!() }), Ok(vec![]));
    assert_eq!(with().fold(7..7, 4, 3, |_, _, _| -> i32 { unreachable!() }), 3);
    chunked((&[], &mut []));
    let report = report::last().unwrap();
    assert_eq!((report.attempts, report.done, report.length), (0, 0, Some(0)));
    assert_eq!(report.to_string(), "devices::adversity::sizes::chunked: nothing was tried");
}

#[test]
fn nothing_has_its_rules_checked_all_the_same() {
    assert!(catch_unwind(|| execute::chunked(&[0_u8; 0][..], 0, |_, _, _| ())).is_err());
}
