//! Order of the rung: after the rungs that cost nothing, before those that cost others something, and once per piece.

use std::sync::{Arc, Mutex};

use toma::classify::OutOfMemory;
use toma::device::{Ladder, Rung};
use toma::leaner;
use toma::observe::{Answer, Event, EventKind};
use toma::{GlobalCache, NoCache, execute, report};

use crate::region::{Handle, Region};

#[test]
fn the_same_size_comes_again_and_then_a_smaller_one() {
    let region = Region::new(&[10, 6, 3], 50);
    let with = execute::with::<GlobalCache>();
    with.range(0..16, 16, |start, end| region.run(end - start).map(drop)).unwrap();
    assert_eq!(region.attempts(), [(16, 0), (16, 1), (8, 1), (8, 1)]);
    let report = report::last().unwrap();
    assert_eq!((report.attempts, report.out_of_memory, report.settled), (4, 2, Some(8)));
    assert!(report.to_string().contains("16 -> 16 again, with a leaner plan"), "{report}");
}

#[test]
fn events_have_the_rung() {
    let region = Region::new(&[10, 5], 50);
    let received = Mutex::new(Vec::new());
    let see = |event: &Event<'_>| {
        if let EventKind::Answered { size, answer } = event.kind {
            received.lock().unwrap().push((size, answer));
        }
    };
    execute::with::<NoCache>().observer(&see).batch(20, |size| region.run(size)).unwrap();
    let received = received.into_inner().unwrap();
    assert_eq!(received, [(20, Answer::Again(Rung::Leaner)), (20, Answer::Shrink(10))]);
    assert_eq!(Rung::Leaner.to_string(), "leaner");
    assert_eq!(received[0].1.to_string(), "tries it once more, a leaner plan asked for");
}

#[test]
fn released_memory_comes_first() {
    let region = Region::new(&[10, 5], 50);
    let device = toma::memory::Host::shared();
    let ladder = Ladder::default().release_and_retry(true);
    let with = execute::with::<NoCache>().device(device).ladder(ladder);
    assert_eq!(with.batch(20, |size| region.run(size)), Ok(10));
    assert_eq!(region.attempts(), [(20, 0), (20, 0), (20, 1), (10, 1)]);
}

#[test]
fn a_piece_that_falls_back_asks_no_more() {
    let region = Region::new(&[10, 9], 8);
    let ladder = Ladder::default().fallback(true);
    let done = execute::with::<NoCache>().ladder(ladder).batch(2, |size| {
        let result = region.run(size);
        if toma::device::falls_back() { Ok(size) } else { result }
    });
    assert_eq!(done, Ok(2));
    assert_eq!(region.attempts(), [(2, 0), (2, 1), (1, 1), (2, 1)]);
}

#[test]
fn the_handle_left_last_is_asked_first_and_one_that_leans_suffices() {
    let order = Arc::new(Mutex::new(String::new()));
    let handles = [('a', true), ('b', true), ('c', false)];
    let size = execute::with::<NoCache>().batch(8, |size| {
        for (name, leans) in handles {
            leaner::offer(Arc::new(Handle { name, leans, order: Arc::clone(&order) }));
        }
        if size > 4 { Err(OutOfMemory::new(None)) } else { Ok(size) }
    });
    assert_eq!((size, order.lock().unwrap().as_str()), (Ok(4), "cb"));
}

#[test]
fn the_error_and_the_undoing_are_over_before_a_plan_is_asked() {
    #[derive(Debug)]
    struct Slow(Arc<Mutex<String>>);
    impl Drop for Slow {
        fn drop(&mut self) {
            self.0.lock().unwrap().push('e');
        }
    }
    impl std::fmt::Display for Slow {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("out of memory")
        }
    }
    impl std::error::Error for Slow {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            static CAUSE: OutOfMemory = OutOfMemory::new(None);
            Some(&CAUSE)
        }
    }
    let order = Arc::new(Mutex::new(String::new()));
    let undone = Arc::clone(&order);
    let mut attempts = 0;
    let with = execute::with::<NoCache>().before_retry(move |_| undone.lock().unwrap().push('u'));
    let result = with.batch(8, |size| {
        attempts += 1;
        order.lock().unwrap().push('b');
        leaner::offer(Arc::new(Handle { name: 'l', leans: true, order: Arc::clone(&order) }));
        if attempts == 1 { Err(Slow(Arc::clone(&order))) } else { Ok(size) }
    });
    assert!(matches!(result, Ok(8)));
    assert_eq!(order.lock().unwrap().as_str(), "beulb");
}
