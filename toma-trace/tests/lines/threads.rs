//! Threads that count at the same time.

use std::sync::{Arc, Barrier};

use toma_trace::Place;
use toma_trace::lines::{LineId, Rows, Source, Sources, Stack};

const THREADS: u64 = 4;
const PASSES: u64 = 2_000;

fn line() -> LineId {
    Sources::new().add(Source::new("f", "src/net.rs").line(1, "fn f() {").line(2, "work();"))
}

/// Sums are exact. A peak is at least the bytes that one thread held, and at most those that all could hold.
#[test]
fn threads_at_once_lose_nothing() {
    let rows = Arc::new(Rows::new(&[(Place::HOST, 0)]));
    let device = rows.device(&Place::HOST).unwrap();
    let together = Barrier::new(usize::try_from(THREADS).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut stack = Stack::new(&rows);
                together.wait();
                for _ in 0..PASSES {
                    stack.enter(line());
                    stack.mark(line().nth(1));
                    let born = stack.allocated(device, 3);
                    stack.leave();
                    stack.freed(device, 3, Some(born));
                }
            });
        }
    });
    let row = &rows.by_line()[&line().nth(1)];
    let figures = row.devices[&device];
    assert_eq!((row.hits, figures.allocated, figures.kept), (THREADS * PASSES, 3 * THREADS * PASSES, 0));
    assert!((3..=3 * THREADS).contains(&figures.peak), "{figures:?}");
    assert_eq!(rows.allocated_bytes(device), 0);
}

/// A stay's watermark covers every block that was live at any moment of it, also while it begins.
#[test]
fn a_watermark_misses_no_byte() {
    let rows = Arc::new(Rows::new(&[(Place::HOST, 0)]));
    let device = rows.device(&Place::HOST).unwrap();
    std::thread::scope(|scope| {
        let helper = scope.spawn(|| {
            let mut stack = Stack::new(&rows);
            for _ in 0..PASSES {
                stack.allocated(device, 1);
            }
        });
        let mut stack = Stack::new(&rows);
        stack.enter(line());
        loop {
            let is_last = helper.is_finished();
            let before = rows.allocated_bytes(device);
            stack.mark(line().nth(1));
            stack.mark(line());
            let peak = rows.by_line()[&line().nth(1)].devices[&device].peak;
            assert!(before <= peak, "{before} bytes were there, and the peak is {peak}");
            if is_last {
                assert_eq!(peak, PASSES);
                break;
            }
        }
    });
}

/// The account of a thread that has ended is reused by the next, so that short threads do not add up.
#[test]
fn short_threads_share_rows() {
    let rows = Arc::new(Rows::new(&[(Place::HOST, 0)]));
    let device = rows.device(&Place::HOST).unwrap();
    for thread in 1..=THREADS {
        let mut stack = Stack::new(&rows);
        stack.enter(line());
        stack.allocated(device, 5);
        drop(stack);
        let figures = rows.by_line()[&line()].devices[&device];
        assert_eq!((figures.allocated, figures.kept, figures.peak), (5 * thread, 5 * thread, 5 * thread));
    }
}

/// A thread in no line works for the only one that is in a line; if two are, it works for none.
#[test]
fn helpers_work_for_the_only_line() {
    let rows = Arc::new(Rows::new(&[(Place::HOST, 0)]));
    let device = rows.device(&Place::HOST).unwrap();
    let [mut first, mut second, mut helper] = [(); 3].map(|()| Stack::new(&rows));
    first.enter(line());
    first.mark(line().nth(1));
    helper.allocated(device, 10);
    second.enter(line());
    let lost = helper.allocated(device, 100);
    second.leave();
    helper.freed(device, 100, Some(lost));
    first.leave();
    let figures = rows.by_line()[&line().nth(1)].devices[&device];
    assert_eq!((figures.allocated, figures.freed, figures.kept), (10, 100, 10));
    assert_eq!(rows.outside().devices[&device].allocated, 100);
    assert_eq!(lost.line(), None);
}
