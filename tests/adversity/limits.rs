//! Deadlines and attempts.

use std::time::Duration;

use toma::classify::OutOfMemory;
use toma::observe::Reason;
#[cfg(feature = "testing")]
use toma::testing::StoppedClock;
use toma::{NoCache, execute, report};

fn gave_up() -> Option<Reason> {
    report::last().unwrap().gave_up
}

#[cfg(feature = "testing")]
#[test]
fn no_retry_starts_after_the_deadline() {
    let clock = StoppedClock::new();
    for (seconds, attempts) in [(60, 3), (59, 3), (41, 3), (40, 2)] {
        let mut made = 0;
        let with = execute::with::<NoCache>().deadline(Duration::from_secs(seconds));
        let ended = with.batch(1 << 20, |_| {
            made += 1;
            clock.advance(Duration::from_secs(20));
            Err::<(), _>(OutOfMemory::new(None))
        });
        assert!(ended.is_err());
        assert_eq!((made, gave_up()), (attempts, Some(Reason::Deadline)), "{seconds} s");
    }
}

#[cfg(feature = "testing")]
#[test]
fn a_deadline_that_passes_in_the_middle_leaves_the_rest_to_succeed() {
    let (clock, mut tried) = (StoppedClock::new(), Vec::new());
    let with = execute::with::<NoCache>().deadline(Duration::from_secs(30));
    with.range(0..8, 8, |start, end| {
        tried.push(end - start);
        if end - start > 2 {
            return Err(OutOfMemory::new(None));
        }
        clock.advance(Duration::from_secs(15));
        Ok(())
    })
    .unwrap();
    assert_eq!(tried, [8, 4, 2, 2, 2, 2]);
    assert_eq!(gave_up(), None);
}

#[test]
fn a_deadline_beyond_all_time_is_none() {
    for deadline in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_secs(1 << 40)] {
        let with = execute::with::<NoCache>().deadline(deadline);
        let size = with.batch(8, |size| if size > 2 { Err(OutOfMemory::new(None)) } else { Ok(size) });
        assert_eq!(size, Ok(2));
    }
}

#[test]
fn the_reason_given_is_the_reason() {
    let with = || execute::with::<NoCache>().deadline(Duration::from_secs(3600));
    let fails = |_| Err::<(), _>(OutOfMemory::new(None));
    with().max_attempts(1).batch(8, fails).unwrap_err();
    assert_eq!(gave_up(), Some(Reason::MaxAttempts));
    with().max_attempts(2).batch(8, fails).unwrap_err();
    assert_eq!(gave_up(), Some(Reason::MaxAttempts));
    with().batch(8, fails).unwrap_err();
    assert_eq!(gave_up(), Some(Reason::NothingSmaller));
    with().min(8).batch(8, fails).unwrap_err();
    assert_eq!(gave_up(), Some(Reason::NothingSmaller));
    let transient = |_| Err::<(), _>(std::io::Error::other("CUBLAS_STATUS_INTERNAL_ERROR"));
    with().max_attempts(1).batch(1, transient).unwrap_err();
    assert_eq!(gave_up(), Some(Reason::MaxAttempts));
}
