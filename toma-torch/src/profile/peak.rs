//! A bound on what an expression allocates.

use toma_core::predict;
use toma_trace::holdings::{Catalog, Holdings, Names};

use crate::cpu;
use crate::ffi::Recording;
use crate::record::trace_of;

/// Panics when an expression has allocated more than so many bytes at once; otherwise it is what the expression is.
///
/// For tests that keep the memory of a step from growing unseen. What is larger is told with the operators and shapes
/// that held most of it.
///
/// ```
/// use tch::{Device, Kind, Tensor};
///
/// let rows = Tensor::ones([1024, 256], (Kind::Float, Device::Cpu)); // 1 MiB
/// let sum = toma::assert_peak!(2 << 20, rows.square().sum(Kind::Float));
/// assert_eq!(sum.double_value(&[]), 1024.0 * 256.0);
/// ```
///
/// ```should_panic
/// # use tch::{Device, Kind, Tensor};
/// # let rows = Tensor::ones([1024, 256], (Kind::Float, Device::Cpu));
/// // peak of 2.00M (2097152 bytes): must be at most 1.00M (1048576 bytes)
/// // host holds 2.00M of it: 1.00M activation, 1.00M temporary
/// //   1.00M  activation  cos (1024, 256)
/// //   1.00M  temporary   exp (1024, 256)
/// toma::assert_peak!(1 << 20, rows.cos().exp());
/// ```
///
/// # What counts
///
/// The bytes of tensors that the expression has allocated on this thread and not yet freed, at the moment when they are
/// most, on each device by itself; also what it returns, and on devices what its backward allocates on other threads.
/// What was there before does not count, and makes no room when it is freed. What other threads do does not count
/// either, so tests that run side by side do not disturb each other; memory that another thread frees seems to live.
///
/// Of CPU tensors those count that are [counted](crate::cpu), as from now on all are. It takes some microseconds for each
/// operator, most of them when the expression has ended.
///
/// # How the expression ends
///
/// The expression is no closure: it may borrow, move, `return`, `break` and use `?`. An expression that does not end,
/// because it panics or leaves, is not measured, so in a loop out of memory goes through as without the macro. An `Err`
/// is a value like any other: write `assert_peak!(bound, step()?)` where errors should leave before.
///
/// In a [dry run](crate::dry_run) nothing is allocated, and nothing measured. An expression that waits with `.await`
/// must stay on its thread, and what other tasks do there meanwhile counts.
///
/// # Panics
///
/// When more was allocated; the bound itself is not too much. The panic is no out of memory to a loop, which therefore
/// passes it on. Also when libtorch's own profiler runs on this thread, and when there is no memory to write all down.
#[macro_export]
macro_rules! assert_peak {
    ($bytes:expr, $expression:expr $(,)?) => {
        // Not `let`, so that temporaries of the expression live as long as without the macro.
        match ($crate::__private::Measured::begin($bytes), $expression) {
            (measured, value) => {
                measured.check();
                value
            }
        }
    };
}

/// What this thread does is recorded until it is checked or dropped.
#[derive(Debug)]
#[must_use = "it is measured until it is checked"]
pub struct Measured {
    bound: u64,
    /// None in a dry run.
    recording: Option<Recording>,
}

impl Measured {
    /// From now on.
    ///
    /// # Panics
    /// When libtorch's own profiler runs on this thread.
    #[track_caller]
    pub fn begin(bound: u64) -> Self {
        cpu::count();
        let begin = || Recording::begin().unwrap_or_else(|error| panic!("assert_peak: {error}"));
        Self { bound, recording: (!predict::is_dry()).then(begin) }
    }

    /// Until now.
    ///
    /// # Panics
    /// When it was too much.
    #[track_caller]
    pub fn check(self) {
        let Some(recording) = self.recording else { return };
        let trace = trace_of(&recording);
        drop(recording);
        let trace = trace.unwrap_or_else(|error| panic!("assert_peak: {error}"));
        let peaks = trace.places().into_iter().map(|place| (trace.live_born(place).peak().bytes, place));
        let Some((peak, place)) = peaks.max_by_key(|(peak, _)| *peak) else { return };
        if peak > self.bound {
            let catalog = Catalog::of(&trace, &Names::new());
            let holdings = Holdings::born_at_peak(&trace, &catalog, place).above(self.bound);
            panic!("assert_peak: {}", holdings.to_string().trim_end());
        }
    }
}
