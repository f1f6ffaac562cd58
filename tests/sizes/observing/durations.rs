//! Durations of attempts in events and in the report.

use std::time::{Duration, Instant};

use crate::observing::world::{FORMS, OUT_OF_MEMORY, TRANSIENT_LARGE, World};

const PAUSE: Duration = Duration::from_millis(2);

#[test]
fn every_attempt_is_timed_for_an_observer() {
    for (name, form) in FORMS {
        let mut world = World::new([OUT_OF_MEMORY, TRANSIENT_LARGE]);
        world.pause = PAUSE;
        let start = Instant::now();
        form(&world, 8).unwrap();
        let whole = start.elapsed();

        let received = world.record.received();
        let ended = |kind: &str| -> Vec<Duration> {
            let ended = received.iter().filter(|received| received.line.starts_with(kind));
            ended
                .map(|received| {
                    received.elapsed.unwrap_or_else(|| panic!("{name}: {received:?} is not timed"))
                })
                .collect()
        };
        let (failed, succeeded) = (ended("failed"), ended("succeeded"));
        assert_eq!((failed.len(), succeeded.len()), (2, 2), "{name}");
        assert!(failed.iter().chain(&succeeded).all(|&elapsed| elapsed >= PAUSE), "{name}: {received:?}");
        let lost: Duration = failed.iter().sum();
        assert!(lost + succeeded.iter().sum::<Duration>() <= whole, "{name}: {received:?} in {whole:?}");

        let report = toma::report::last().unwrap();
        assert_eq!((report.time_lost, report.time_lost_is_exact), (lost, true), "{name}");
    }
}

#[test]
fn events_without_an_attempt_have_no_duration() {
    let world = World::new([OUT_OF_MEMORY]);
    crate::observing::world::inline(&world, 8).unwrap();
    for received in world.record.received() {
        let is_end = received.line.starts_with("failed") || received.line.starts_with("succeeded");
        assert_eq!(received.elapsed.is_some(), is_end, "{received:?}");
    }
}
