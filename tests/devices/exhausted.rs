//! Really exhausted memory, filled by small allocations: no byte is free when the body returns its error, and the
//! library must still examine the error.
#![cfg(target_os = "linux")]

use std::collections::TryReserveError;

use toma::memory::{set_cpu_memory_limit, used_bytes};

use crate::child;

/// Number of rows: more than fit at once, few enough for pieces.
const ROWS: usize = 4_000_000;

#[toma::range(min = 1000, before_retry = rows.truncate(start))]
fn load(start: usize, end: usize, bytes: usize, rows: &mut Vec<Vec<u8>>) -> Result<(), TryReserveError> {
    for _ in start..end {
        let mut row = Vec::new();
        row.try_reserve_exact(bytes)?;
        row.push(1);
        rows.push(row);
    }
    Ok(())
}

/// Fills the memory with rows of this many bytes until nothing more fits.
fn fill(bytes: usize) {
    let mut rows = Vec::with_capacity(ROWS);
    let limit = set_cpu_memory_limit(used_bytes().unwrap() + (8 << 20)).unwrap();
    let result = load(0, ROWS, bytes, &mut rows);
    drop(limit);
    // All rows can never fit: the original error comes out, and the report knows why.
    assert!(result.is_err());
    let report = toma::report::last().unwrap();
    assert!(report.out_of_memory > 1, "{report}");
    assert!(report.gave_up.is_some(), "{report}");
    assert!(rows.len() < ROWS && rows.len() > report.done, "{} rows, {report}", rows.len());
}

/// Each size in a process of its own.
#[test]
fn rows_of_any_size() {
    for bytes in ["16", "40", "1024", "61440"] {
        let Some(ended) = child::run("exhausted::rows_of_any_size", &[("ROW_BYTES", bytes)]) else {
            return fill(std::env::var("ROW_BYTES").unwrap().parse().unwrap());
        };
        ended.passed();
    }
}
