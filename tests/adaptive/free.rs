//! Policies that measure nothing cost nothing.

use std::io;

use toma::memory::{MemorySource, Reading, Usage};
use toma::policy::{Evidence, Policy};
use toma::{Bisect, Decay, Halve, NoCache, execute};

/// A memory that must not be asked.
#[derive(Debug)]
struct Untouchable;

impl MemorySource for Untouchable {
    fn name(&self) -> &'static str {
        "untouchable"
    }

    fn read(&self) -> io::Result<Reading> {
        panic!("the memory was read")
    }

    fn usage(&self) -> Option<Usage> {
        panic!("the memory was asked for its usage")
    }

    fn reset_peak(&self) {
        panic!("the peak was reset")
    }
}

/// A policy that was told no time.
#[derive(Debug)]
struct Timeless;

impl Policy for Timeless {
    fn shrink(&self, evidence: &Evidence) -> usize {
        evidence.size / 2
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        assert!(evidence.elapsed.is_none() && evidence.record.time.is_zero(), "{evidence:?}");
        evidence.step
    }
}

#[test]
fn nothing_is_measured_for_them() {
    let policies: [Box<dyn Policy>; 4] =
        [Box::new(Halve), Box::new(Decay::new(0.5)), Box::new(Bisect::default()), Box::new(Timeless)];
    for policy in policies {
        execute::with::<NoCache>().policy(policy).device(&Untouchable).range(0..100, 10, |_start, _end| ());
    }
}
