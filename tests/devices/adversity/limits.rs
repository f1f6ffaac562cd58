//! Deadlines and attempts. The rules for when retries stop are tested in `tests/loops/rules`.

use std::time::Duration;

use toma::classify::OutOfMemory;
use toma::observe::Reason;
use toma::{NoCache, execute, report};

fn gave_up() -> Option<Reason> {
    report::last().unwrap().gave_up
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
    assert_eq!(Reason::MaxAttempts.to_string(), "max_attempts is reached");
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
