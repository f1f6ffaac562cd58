//! Memory use of the lines of profiled functions that run operators.
//!
//! These tests are a process of their own, because a peak is that of all threads.

mod adversity;
#[path = "../common/alone.rs"]
mod alone;
mod engine;
mod events;
#[path = "../../../tests/common/executor.rs"]
mod executor;
mod filled;
#[path = "../common/ground.rs"]
mod ground;
mod nets;
mod repeated;
mod rows;
mod switch;
mod viz;

#[path = "../../../tests/common/child.rs"]
mod child;

use std::io::{self, Write as _};

use toma_torch::profile::{Depth, Profiler, Recording};

use crate::alone::alone;
use crate::ground::figures;

/// Prints past the capture of the test harness, which shows no output of tests that succeed.
fn skipped(reason: &str) {
    let thread = std::thread::current();
    let _ = writeln!(io::stderr(), "{} is skipped: {reason}", thread.name().unwrap_or("a test"));
}

fn record(step: impl FnOnce()) -> Recording {
    record_at(Depth::Lines, step)
}

fn record_at(depth: Depth, step: impl FnOnce()) -> Recording {
    let profiling = Profiler::new().depth(depth).start().unwrap();
    step();
    profiling.finish()
}

/// Checks that the allocator, the trace and the table report the same bytes.
fn assert_counted(recording: &Recording) {
    let live = recording.trace().unwrap().live(&ground::place());
    assert_eq!((live.after(), live.peak().bytes), (ground::allocated_bytes(), recording.peak().bytes));
}
