//! Events of the rung, and the order of its plans. Its order among the other rungs is tested in `tests/loops/rules`.

use std::sync::{Arc, Mutex};

use toma::classify::OutOfMemory;
use toma::device::Rung;
use toma::leaner;
use toma::observe::{Answer, Event, EventKind};
use toma::{NoCache, execute, report};

use crate::region::{Handle, Region};

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
    let report = report::last().unwrap();
    assert!(report.to_string().contains("20 -> 20 again, with a leaner plan"), "{report}");
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
