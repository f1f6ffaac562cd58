//! Seats, as the engine uses them.

use std::io;

use super::*;
use crate::memory::{MemorySource, Reading};

/// A device of its own for a test.
#[derive(Debug)]
struct Device(&'static str);

impl MemorySource for Device {
    fn name(&self) -> &str {
        self.0
    }

    fn read(&self) -> io::Result<Reading> {
        Ok(Reading::new(0, 0))
    }
}

const UNBOUNDED: Bounds<'static> = Bounds { until: None, cancel: None };

#[test]
fn ordinary_attempts_enter_at_once() {
    let [one, two, elsewhere] =
        ["at once", "at once", "at once, elsewhere"].map(|name| Seat::at(&Device(name)));
    assert!(one.try_enter(None) && two.try_enter(None) && elsewhere.try_enter(None));
    assert_eq!([one.others(), two.others(), elsewhere.others()], [1, 1, 0]);
    one.leave();
    assert_eq!(two.others(), 0);

    two.leave();
    assert_eq!(two.admission(Kind::Alone, None, UNBOUNDED).wait(), Admitted::Yes);
}
