//! Bound on the bytes that an expression allocates.

use toma_core::predict;
use toma_trace::holdings::{Catalog, Holdings, Names};

use crate::cpu;
use crate::ffi::Recording;
use crate::record::trace_of;

/// Evaluates to an expression's value, and panics if the expression has allocated more than so many bytes at once.
///
/// For tests that keep the memory of a step from growing unnoticed. The panic lists the operators and shapes that held
/// most of the memory.
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
/// # Counted bytes
///
/// The most bytes of tensors at any moment that the expression has allocated on this thread and not yet freed, on each
/// device separately. Its result counts, and on devices also allocations of its backward on other threads. Memory from
/// before does not count, and makes no room when it is freed. Other threads do not count either, so tests that run side
/// by side do not disturb each other; memory that another thread frees seems to stay live.
///
/// CPU tensors count if they are [counted](crate::cpu), as all are from the first call on. The recording takes some
/// microseconds for each operator, most of them after the expression.
///
/// # How the expression ends
///
/// The expression is no closure: it may borrow, move, `return`, `break` and use `?`. An expression that does not end,
/// because it panics or leaves, is not measured, so out of memory reaches a surrounding loop as without the macro. An
/// `Err` is a value like any other: write `assert_peak!(bound, step()?)` where errors should leave before the check.
///
/// In a [dry run](crate::dry_run) nothing is allocated and nothing measured. An expression with `.await` must stay on
/// its thread, and other tasks that run there meanwhile are counted.
///
/// # Panics
///
/// When more than the bound was allocated; the bound itself is allowed. A loop does not take this panic for out of
/// memory, so it passes the panic on. Also when libtorch's own profiler runs on this thread, and when there is no
/// memory for the recording.
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

/// Recording of this thread until it is checked or dropped.
#[derive(Debug)]
#[must_use = "it is measured until it is checked"]
pub struct Measured {
    bound: u64,
    /// `None` in a dry run.
    recording: Option<Recording>,
}

impl Measured {
    /// Begins the recording.
    ///
    /// # Panics
    /// When libtorch's own profiler runs on this thread.
    #[track_caller]
    pub fn begin(bound: u64) -> Self {
        cpu::count();
        let begin = || Recording::begin().unwrap_or_else(|error| panic!("assert_peak: {error}"));
        Self { bound, recording: (!predict::is_dry()).then(begin) }
    }

    /// Ends the recording and checks its peak.
    ///
    /// # Panics
    /// When the peak is above the bound.
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
