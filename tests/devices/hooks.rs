//! Release hooks, which are process-wide. The rules for when hooks are asked, and for the attempts that follow, are
//! tested in `tests/loops/rules`.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use toma::classify::OutOfMemory;
use toma::device::{Pressure, on_release};
use toma::memory::{Host, MemorySource};
use toma::observe::Event;
use toma::{NoCache, execute, report};

use crate::child::alone;

/// Returns the sizes tried by a range of 8 items of which `limit` fit at a time.
fn sizes(limit: impl Fn() -> usize) -> Vec<usize> {
    let mut sizes = Vec::new();
    let _ = execute::with::<NoCache>().range(0..8, 8, |start, end| {
        sizes.push(end - start);
        if end - start > limit() { Err(OutOfMemory::new(Some(1000))) } else { Ok(()) }
    });
    sizes
}

#[test]
fn bytes_that_a_hook_frees_save_the_size() {
    alone("hooks::bytes_that_a_hook_frees_save_the_size", || {
        let room = Arc::new(AtomicUsize::new(2));
        let more = Arc::clone(&room);
        let hooked = on_release(move |pressure: &Pressure<'_>| {
            assert_eq!((pressure.size, pressure.requested_bytes), (8, Some(1000)));
            assert_eq!(pressure.device, Host::shared().name());
            more.swap(8, Relaxed) < 8
        });
        assert_eq!(sizes(|| room.load(Relaxed)), [8, 8]);
        let report = report::last().unwrap();
        assert_eq!(report.settled, None);
        assert!(
            report.to_string().contains("tried    8 -> 8 again, after the release hooks, worked once"),
            "{report}"
        );
        drop(hooked);
        room.store(4, Relaxed);
        assert_eq!(sizes(|| room.load(Relaxed)), [8, 4, 4], "no hook is asked any more");
    });
}

#[test]
fn one_that_gives_is_enough_and_all_are_asked_in_order() {
    alone("hooks::one_that_gives_is_enough_and_all_are_asked_in_order", || {
        let order = Arc::new(Mutex::new(Vec::new()));
        let hook = |name: &'static str, gives| {
            let order = Arc::clone(&order);
            on_release(move |_| {
                order.lock().unwrap().push(name);
                gives
            })
        };
        let _hooked = [hook("first", true), hook("second", false)];
        assert_eq!(sizes(|| 4), [8, 8, 4, 4]);
        assert_eq!(*order.lock().unwrap(), ["first", "second"]);
    });
}

#[test]
fn a_hook_that_panics_is_not_asked_again_and_the_work_goes_on() {
    alone("hooks::a_hook_that_panics_is_not_asked_again_and_the_work_goes_on", || {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let hooked = on_release(move |_| {
            count.fetch_add(1, Relaxed);
            panic!("a hook that cannot");
        });
        assert_eq!(sizes(|| 4), [8, 4, 4]);
        assert_eq!(sizes(|| 4), [8, 4, 4]);
        assert_eq!(asked.load(Relaxed), 1);
        assert!(format!("{hooked:?}").contains("has_panicked: true"));
    });
}

#[test]
fn loops_in_a_hook_ask_none() {
    alone("hooks::loops_in_a_hook_ask_none", || {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let _hooked = on_release(move |_| {
            count.fetch_add(1, Relaxed);
            assert_eq!(sizes(|| 4), [8, 4, 4]);
            false
        });
        assert_eq!(sizes(|| 4), [8, 4, 4]);
        assert_eq!(asked.load(Relaxed), 1);
    });
}

/// Observation does not change when hooks are asked.
#[test]
fn a_call_that_began_before_any_hook_asks_none() {
    alone("hooks::a_call_that_began_before_any_hook_asks_none", || {
        let observer = |_: &Event<'_>| ();
        for observed in [false, true] {
            let (mut sizes, mut hooked) = (Vec::new(), Vec::new());
            let with = execute::with::<NoCache>();
            let with = if observed { with.observer(&observer) } else { with };
            let body = |start, end| {
                hooked.push(on_release(|_| true));
                sizes.push(end - start);
                if end - start > 4 { Err(OutOfMemory::new(None)) } else { Ok(()) }
            };
            with.range(0..8, 8, body).unwrap();
            assert_eq!(sizes, [8, 4, 4], "observed: {observed}");
        }
    });
}

#[test]
fn a_hook_may_end_its_own_registration() {
    alone("hooks::a_hook_may_end_its_own_registration", || {
        let own = Arc::new(Mutex::new(None));
        let itself = Arc::clone(&own);
        let hooked = on_release(move |_| itself.lock().unwrap().take().is_some());
        *own.lock().unwrap() = Some(hooked);
        assert_eq!(sizes(|| 4), [8, 8, 4, 4]);
        assert_eq!(sizes(|| 4), [8, 4, 4]);
    });
}
