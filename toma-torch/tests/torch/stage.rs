//! Helpers that the tests share.

use std::any::Any;
use std::cell::Cell;
use std::env;
use std::panic;
use std::sync::{LazyLock, MutexGuard, Once};

use tch::Tensor;
use toma_core::report::Report;
use toma_core::{Auto, Halve, NoCache, execute};
use toma_torch::{Device, DryRun};

use crate::child;
use crate::ground::{self, FailingAllocation};

/// Bytes of one row of [`rows`].
pub(crate) const ROW: u64 = 4096;

thread_local! {
    static PRINTED: Cell<usize> = const { Cell::new(0) };
    static COUNTING: Cell<bool> = const { Cell::new(false) };
}

/// Makes the other tests wait, because bytes are counted for the whole process.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static FIRST: Once = Once::new();
    let guard = crate::alone::alone();
    FIRST.call_once(count_panics);
    guard
}

/// Counts the printed panics of each thread, with a hook that is installed before the engine's.
///
/// Panics within [`printed`] are expected, so they are only counted: hundreds of backtraces would take longer than
/// the tests.
fn count_panics() {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        PRINTED.set(PRINTED.get() + 1);
        let text = text_of(info.payload());
        let on_purpose = text.contains("CPU out of memory") || text.contains("the stress test");
        if !(COUNTING.get() && on_purpose) {
            previous(info);
        }
    }));
}

/// Returns the result of `work`, and how many panics of this thread were printed meanwhile.
pub(crate) fn printed<R>(work: impl FnOnce() -> R) -> (R, usize) {
    let before = PRINTED.get();
    COUNTING.set(true);
    let result = work();
    COUNTING.set(false);
    (result, PRINTED.get() - before)
}

/// Returns the result of `work`, whose allocation of this number fails, and whether there was such an allocation.
pub(crate) fn failing_at<R>(allocation: u32, work: impl FnOnce() -> R) -> (R, bool) {
    let failing = FailingAllocation::after(allocation);
    let result = work();
    (result, failing.has_failed())
}

/// A tensor of `count` rows of [`ROW`] bytes.
pub(crate) fn rows(count: usize) -> Tensor {
    Tensor::zeros([size(count), 1024], ground::floats())
}

/// A tensor of consecutive numbers.
pub(crate) fn numbered(sizes: &[i64]) -> Tensor {
    Tensor::arange(sizes.iter().product::<i64>(), ground::floats()).reshape(sizes)
}

pub(crate) fn size(count: usize) -> i64 {
    i64::try_from(count).unwrap()
}

/// Returns the message of the panic.
pub(crate) fn panic_of(work: impl FnOnce()) -> String {
    caught(work).expect_err("it panics")
}

/// Returns the result of `work`, or the message of its panic.
pub(crate) fn caught<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    panic::catch_unwind(panic::AssertUnwindSafe(work)).map_err(|payload| text_of(&*payload).to_owned())
}

fn text_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).expect("a text")
}

/// Copies the tensors without their graph.
pub(crate) fn copies<'t>(tensors: impl IntoIterator<Item = &'t Tensor>) -> Vec<Tensor> {
    tensors.into_iter().map(|tensor| tensor.detach().copy()).collect()
}

/// The largest difference between two numbers at the same index.
#[track_caller]
pub(crate) fn difference(some: &[Tensor], others: &[Tensor]) -> f64 {
    assert_eq!(some.len(), others.len());
    let pairs = some.iter().zip(others);
    pairs.map(|(one, other)| (one - other).abs().max().double_value(&[])).fold(0.0, f64::max)
}

/// Runs the test of this name again, alone in a process of its own, which must succeed and print neither a panic nor a
/// backtrace. Returns true in that process.
pub(crate) fn in_child(name: &str) -> bool {
    let Some(ended) = child::run(name, &[]) else { return true };
    let errors = ended.passed().join("\n");
    // Libraries may print warnings about this machine there.
    assert!(!errors.contains("panicked at") && !errors.contains("frame #"), "{errors}");
    false
}

/// The device of the suite.
pub(crate) fn device() -> &'static Device {
    static DEVICE: LazyLock<Device> = LazyLock::new(|| Device::new(ground::device()));
    &DEVICE
}

/// A form with default options.
pub(crate) type With = execute::With<'static, Halve, Auto, ()>;

/// A form on the device of the suite, predicted by dry runs.
pub(crate) fn predicted() -> With {
    execute::with::<NoCache>().device(device()).predict(&DryRun)
}

/// Reads a number from the environment.
pub(crate) fn setting(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: must be a number")))
}

/// Returns the report of the last call.
pub(crate) fn report() -> Report {
    toma_core::report::last().expect("a call has ended")
}
