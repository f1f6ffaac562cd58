//! Real allocation failures: a process whose address space is limited, and bodies that allocate more than the limit.
#![cfg(target_os = "linux")]

use std::collections::TryReserveError;

use toma::{GlobalCache, NoCache, StacktraceMemoryCache, cpu_memory, execute, report};

use crate::child;
use crate::executor::block_on;

const MIB: usize = 1 << 20;
/// Megabytes that the limit leaves free.
const LEFT: usize = 192;
/// Number of items, of 1 MiB each. An attempt at all of them always fails.
const ITEMS: usize = 1000;

/// Allocates memory for `items` items and touches both of its ends.
fn allocate(items: usize) -> Result<Vec<u8>, TryReserveError> {
    let mut block = Vec::new();
    block.try_reserve_exact(items * MIB)?;
    block.push(1);
    Ok(block)
}

#[toma::batch(initial = ITEMS, cache = GlobalCache)]
fn batch(size: usize) -> Result<usize, TryReserveError> {
    allocate(size).map(|_| size)
}

#[toma::range(initial = 1000, cache = StacktraceMemoryCache)]
fn range(start: i64, end: i64, done: &mut Vec<i64>) -> Result<(), TryReserveError> {
    let _block = allocate(usize::try_from(end - start).unwrap())?;
    done.extend(start..end);
    Ok(())
}

/// Increments each item, so an item that is done twice shows.
fn increment(items: &mut [u8]) {
    for item in items {
        *item += 1;
    }
}

#[toma::chunked(initial = ITEMS)]
fn chunked(data: &mut [u8], start: usize, end: usize) -> Result<(), Box<dyn std::error::Error>> {
    let _block = allocate(data.len())?;
    assert_eq!(data.len(), end - start);
    increment(data);
    Ok(())
}

#[toma::range(initial = ITEMS, cache = NoCache)]
async fn asynchronous(start: usize, end: usize, done: &mut usize) -> Result<(), TryReserveError> {
    let _block = allocate(end - start)?;
    *done += end - start;
    Ok(())
}

/// Asserts that the previous call ran out of memory, shrank, and succeeded.
fn shrank() {
    let report = report::last().unwrap();
    assert!(report.out_of_memory > 0 && report.gave_up.is_none(), "{report}");
    let worked = report.tried.last().filter(|tried| tried.failed.is_none());
    assert!(worked.is_some_and(|tried| 0 < tried.size && tried.size <= LEFT), "{report}");
}

fn inline_forms() {
    let size = execute::with::<NoCache>().batch(ITEMS, |size| allocate(size).map(|_| size)).unwrap();
    assert!(LEFT / 4 < size && size <= LEFT, "{size}");
    shrank();
    let mut done = Vec::new();
    execute::range(0..ITEMS, ITEMS, |start, end| allocate(end - start).map(|_| done.extend(start..end)))
        .unwrap();
    assert_eq!(done, (0..ITEMS).collect::<Vec<_>>());
    shrank();
    let mut data = vec![0_u8; ITEMS];
    execute::chunked(&mut data[..], ITEMS, |chunk, _, _| {
        // Panics when memory runs out, as ordinary methods of tensor libraries do.
        let _block = allocate(chunk.len()).unwrap();
        increment(chunk);
    });
    assert_eq!(data, [1; ITEMS]);
    shrank();
    let sizes =
        execute::map(0..ITEMS, ITEMS, |start, end| allocate(end - start).map(|_| end - start)).unwrap();
    assert_eq!(sizes.iter().sum::<usize>(), ITEMS);
    shrank();
    let sum =
        execute::fold(0..ITEMS, ITEMS, 0, |sum, start, end| allocate(end - start).map(|_| sum + end - start));
    assert_eq!(sum.unwrap(), ITEMS);
    shrank();
}

fn attributes() {
    assert!(batch().unwrap() <= LEFT);
    shrank();
    let mut done = Vec::new();
    range(-500, 500, &mut done).unwrap();
    assert_eq!(done, (-500..500).collect::<Vec<_>>());
    shrank();
    let mut data = vec![0; ITEMS];
    chunked(&mut data).unwrap();
    assert_eq!(data, [1; ITEMS]);
    shrank();
    let mut done = 0;
    block_on(asynchronous(0, ITEMS, &mut done)).unwrap();
    assert_eq!(done, ITEMS);
    shrank();
}

#[test]
fn every_form_shrinks_when_the_host_has_no_memory_and_finishes() {
    let test = "adversity::host::every_form_shrinks_when_the_host_has_no_memory_and_finishes";
    let Some(ended) = child::run(test, &[]) else {
        let limit = cpu_memory::used_bytes().unwrap() + (LEFT * MIB) as u64;
        let _limit = cpu_memory::set_cpu_memory_limit(limit).unwrap();
        inline_forms();
        attributes();
        return;
    };
    assert_eq!(ended.passed(), [""; 0], "failures that are answered are not printed");
}
