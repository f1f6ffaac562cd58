//! What work takes: time, and the processor time of this process, which others on the machine
//! change little.

use std::ops::AddAssign;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

pub(crate) struct Clock {
    started: Instant,
    processor: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) time: Duration,
    /// Of all threads together, in the program and in the kernel for it.
    pub(crate) processor: Duration,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), processor: processor() }
    }

    pub(crate) fn spent(&self) -> Spent {
        Spent { time: self.started.elapsed(), processor: processor().saturating_sub(self.processor) }
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.time += other.time;
        self.processor += other.processor;
    }
}

fn processor() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time() {
        let clock = Clock::start();
        while clock.spent().processor < Duration::from_millis(2) {
            std::hint::black_box((0..10_000_u64).map(std::hint::black_box).sum::<u64>());
        }
        assert!(clock.spent().time > Duration::ZERO);
    }

    #[test]
    fn what_was_spent_adds_up() {
        let spent = |time, processor| Spent {
            time: Duration::from_secs(time),
            processor: Duration::from_secs(processor),
        };
        let mut sum = spent(1, 2);
        sum += spent(10, 20);
        assert_eq!(sum, spent(11, 22));
    }
}
