//! Readings that may be a little old.

use std::cell::Cell;
use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;

use super::super::recent::{LastReadings, MEMORIES};
use super::super::{MemorySource, Reading, STALENESS, recent};

/// A memory whose free bytes are the number of its readings.
#[derive(Debug)]
struct Counting {
    name: &'static str,
    reads: AtomicU32,
    staleness: Duration,
    readable: bool,
}

impl Counting {
    fn new(name: &'static str) -> Self {
        Self { name, reads: AtomicU32::new(0), staleness: Duration::MAX, readable: true }
    }
}

impl MemorySource for Counting {
    fn name(&self) -> &str {
        self.name
    }

    fn read(&self) -> io::Result<Reading> {
        let reads = self.reads.fetch_add(1, Ordering::Relaxed) + 1;
        if self.readable { Ok(Reading::new(reads.into(), 99)) } else { Err(io::ErrorKind::Other.into()) }
    }

    fn staleness(&self) -> Duration {
        self.staleness
    }
}

#[test]
fn recent_reads_once_per_thread_and_memory_within_the_staleness() {
    let free = |source: &Counting| recent(source).unwrap().free_bytes;
    let source = Counting::new("once");
    assert_eq!([free(&source), free(&source)], [1, 1]);
    assert_eq!(free(&Counting::new("another")), 1);
    assert_eq!(thread::scope(|scope| scope.spawn(|| [free(&source), free(&source)]).join().unwrap()), [2, 2]);
    assert_eq!(free(&source), 1);
    let stale = Counting { staleness: Duration::from_millis(20), ..Counting::new("stale") };
    assert_eq!(free(&stale), 1);
    thread::sleep(Duration::from_millis(60));
    assert_eq!(free(&stale), 2);
    let never = Counting { staleness: Duration::ZERO, ..Counting::new("never") };
    assert_eq!([free(&never), free(&never)], [1, 2]);
    assert_eq!(recent(&&never).unwrap().free_bytes, 3, "a reference is the same source");
    let unreadable = Counting { readable: false, ..Counting::new("unreadable") };
    assert_eq!([recent(&unreadable), recent(&unreadable)], [None, None]);
    assert_eq!(unreadable.reads.into_inner(), 1);
}

#[test]
fn recent_at_the_end_of_a_thread() {
    struct AtExit(Cell<Option<std::sync::mpsc::Sender<Option<Reading>>>>);
    impl Drop for AtExit {
        fn drop(&mut self) {
            let source = Counting::new("exit");
            recent(&source);
            self.0.take().unwrap().send(recent(&source)).unwrap();
        }
    }
    thread_local!(static LATE: AtExit = const { AtExit(Cell::new(None)) });
    let (sender, receiver) = std::sync::mpsc::channel();
    // Both orders: the readings are destroyed after `LATE`, or before it.
    for readings_first in [true, false] {
        let sender = sender.clone();
        let work = move || {
            let first = Counting::new("first");
            if readings_first {
                recent(&first);
            }
            LATE.with(|late| late.0.set(Some(sender)));
            recent(&first);
        };
        thread::spawn(work).join().unwrap();
    }
    drop(sender);
    let readings: Vec<_> = receiver.iter().map(|reading| reading.unwrap().free_bytes).collect();
    // Destructors run last registered first, or first registered first: one thread has its readings,
    // and the other reads twice.
    assert!(readings == [1, 2] || readings == [2, 1], "{readings:?}");
}

#[test]
fn source_that_runs_loops_of_its_own_when_read() {
    #[derive(Debug)]
    struct Outer(Counting);
    impl MemorySource for Outer {
        fn name(&self) -> &'static str {
            "outer"
        }
        fn read(&self) -> io::Result<Reading> {
            recent(&self.0).ok_or_else(|| io::ErrorKind::Other.into())
        }
    }
    assert_eq!(recent(&Outer(Counting::new("inner"))), Some(Reading::new(1, 99)));
}

proptest! {
    /// Compares with a list of everything ever remembered.
    #[test]
    fn readings_are_never_too_old_nor_of_another_memory(
        steps in prop::collection::vec((0..12_usize, 1..50_u64), 1..100),
    ) {
        let (mut readings, mut now) = (LastReadings::new(), 0);
        let mut all: Vec<(usize, u64, u64)> = Vec::new();
        for (free, (source, pause)) in (0..).zip(steps) {
            now += pause;
            let (name, at) = (format!("memory {source}"), Duration::from_millis(now));
            let known = readings.fresh(&name, at, STALENESS).map(|known| known.reading.unwrap().free_bytes);
            let later: HashSet<_> = all.iter().rev().map(|entry| entry.0).take_while(|other| *other != source).collect();
            let last = all.iter().rev().find(|entry| entry.0 == source);
            let still = last.filter(|entry| now - entry.1 < 100 && later.len() < MEMORIES);
            prop_assert_eq!(known, still.map(|entry| entry.2));
            readings.keep(&name, at, Some(Reading::new(free, 0)));
            all.push((source, now, free));
        }
    }
}
