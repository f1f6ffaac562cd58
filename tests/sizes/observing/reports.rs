//! Fields of a report that neither its text nor its events show.

use std::time::Duration;

use toma::classify::Class;
use toma::report::{Report, Tried};
use toma::{GlobalCache, NoCache, execute, report};

use crate::kit::fits;
use crate::observing::world::{FINE, FORMS, OUT_OF_MEMORY, TRANSIENT_LARGE, World};

fn last() -> Report {
    report::last().expect("a call has ended on this thread")
}

/// Returns the sizes, their successes, and the class of the failure that ended each.
fn tried(report: &Report) -> Vec<(usize, usize, Option<Class>)> {
    report.tried.iter().map(|&Tried { size, succeeded, failed, .. }| (size, succeeded, failed)).collect()
}

/// Even pieces may be smaller than the step, and the later ones may be one item smaller.
#[test]
fn of_even_pieces() {
    let run = |items, limit| {
        let body = |start: usize, end: usize| fits(end - start, limit);
        execute::with::<NoCache>().evenly().range(0..items, 220, body).unwrap();
        last()
    };
    let report = run(600, 200);
    assert_eq!((report.start, report.attempts, tried(&report)), (200, 3, vec![]));
    assert!(report.to_string().contains("started  at 200, "), "{report}");
    let report = run(601, 80);
    let oom = Some(Class::OutOfMemory);
    // Half of 201 is 100, which takes seven pieces; half of 86 is 43, which takes fourteen.
    assert_eq!((report.start, tried(&report)), (201, vec![(201, 0, oom), (86, 0, oom), (43, 14, None)]));
    assert!(report.to_string().contains("learned  43 works, 86 does not"), "{report}");
}

#[test]
fn of_shrinks() {
    let script = [FINE, OUT_OF_MEMORY, FINE, TRANSIENT_LARGE, TRANSIENT_LARGE];
    for (name, form) in FORMS {
        form(&World::new(script), 20).unwrap();
        let report = last();
        let (oom, transient) = (Some(Class::OutOfMemory), Some(Class::Transient));
        // 0..8, then 8..16 fails, 8..12, 12..16 fails twice, 12..14, 14..16, 16..18, 18..20
        let of_8_and_4 = [(8, 1, None), (8, 0, oom), (4, 1, None), (4, 0, transient), (4, 0, transient)];
        assert_eq!(tried(&report), [&of_8_and_4[..], &[(2, 4, None)]].concat(), "{name}");
        assert_eq!((report.length, report.done, report.start), (Some(20), 20, 8), "{name}");
        assert_eq!((report.attempts, report.out_of_memory), (9, 1), "{name}");
        assert_eq!((report.settled, report.gave_up), (Some(2), None), "{name}");
    }
}

#[test]
fn names_a_cache_that_remembers_nothing_and_the_one_behind_the_default() {
    let body = |start: usize, end: usize| fits(end - start, 4);
    let settled = || (last().settled, last().is_remembered, last().cache);
    execute::with::<NoCache>().range(0..8, 8, body).unwrap();
    assert_eq!(settled(), (Some(4), false, Some("NoCache")));
    execute::range(0..8, 8, body).unwrap();
    assert_eq!(settled(), (Some(4), true, Some("StacktraceMemoryCache")));
}

#[test]
fn times_add_up_where_every_attempt_is_timed() {
    for (name, form) in FORMS {
        let mut world = World::new([FINE, OUT_OF_MEMORY, FINE, OUT_OF_MEMORY]);
        world.pause = Duration::from_millis(1);
        form(&world, 20).unwrap();
        let report = last();
        let time = report.time.unwrap_or_else(|| panic!("{name}: an observer watches"));
        let until: Vec<Duration> = report.tried.iter().map(|tried| tried.time.unwrap()).collect();
        assert!(until.is_sorted() && until[0] >= 2 * world.pause, "{name}: {until:?}");
        assert_eq!(until.last(), Some(&time), "{name}");
        assert!(report.time_lost < time, "{name}: {report:?}");
    }
}

#[test]
fn unobserved_counts_the_time_of_all_failures_but_the_first() {
    let pause = Duration::from_millis(2);
    let fail_above = |limit: usize| {
        let cache = GlobalCache::new();
        let with = execute::with::<GlobalCache>().cache(&cache);
        let body = |start: usize, end: usize| {
            std::thread::sleep(pause);
            fits(end - start, limit)
        };
        with.range(0..8, 8, body).unwrap();
        last()
    };
    let once = fail_above(4);
    assert_eq!((once.time_lost, once.time_lost_is_exact), (Duration::ZERO, false));
    let three_times = fail_above(1);
    assert_eq!((three_times.out_of_memory, three_times.time_lost_is_exact), (3, false));
    assert!(three_times.time_lost >= 2 * pause, "{:?}", three_times.time_lost);
    let whole = (three_times.time, three_times.tried.iter().find_map(|tried| tried.time));
    assert_eq!(whole, (None, None), "a share of what is not known");
}

#[cfg(feature = "testing")]
#[test]
fn keeps_the_attempt_nearest_to_the_limit() {
    let device = toma::testing::FakeDevice::new(1000);
    let with = execute::with::<NoCache>().policy(toma::Adaptive::default()).device(&device).min(2);
    let held = std::cell::RefCell::new(Vec::new());
    let body = |start: usize, end: usize| {
        let bytes = 100 * (end - start) as u64;
        // One piece is heavier, and one keeps half of the available bytes.
        let peak = device.alloc(if start == 4 { 3 * bytes } else { bytes })?;
        if start == 6 {
            drop(peak);
            held.borrow_mut().push(device.alloc(500)?);
        }
        Ok::<(), toma::testing::FakeOutOfMemory>(())
    };
    with.range(0..8, 2, body).unwrap();
    let fullest = last().fullest.expect("the device counts bytes");
    assert_eq!((fullest.size, fullest.peak_bytes, fullest.available_bytes), (2, 600, 1000));
    assert!((fullest.share() - 0.6).abs() < 1e-9);
}
