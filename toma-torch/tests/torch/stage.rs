//! What the tests share.

use std::cell::Cell;
use std::panic;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use tch::{Device, Kind, Tensor};
use toma_torch::cpu;

pub(crate) const FLOATS: (Kind, Device) = (Kind::Float, Device::Cpu);

/// Bytes of one row of [`rows`].
pub(crate) const ROW: u64 = 4096;

thread_local! {
    static PRINTED: Cell<usize> = const { Cell::new(0) };
}

/// Keeps the other tests waiting: bytes are counted for the whole process.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    static FIRST: Once = Once::new();
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    FIRST.call_once(|| {
        cpu::count();
        count_panics();
        // One order of sums, so that values can be compared exactly.
        tch::set_num_threads(1);
    });
    guard
}

/// Counts the panics that are printed, per thread; before the engine puts its own hook in front.
fn count_panics() {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        PRINTED.set(PRINTED.get() + 1);
        previous(info);
    }));
}

/// How many panics of this thread were printed while `work` ran.
pub(crate) fn printed_by(work: impl FnOnce()) -> usize {
    let before = PRINTED.get();
    work();
    PRINTED.get() - before
}

/// A tensor of `count` rows of [`ROW`] bytes.
pub(crate) fn rows(count: usize) -> Tensor {
    Tensor::zeros([size(count), 1024], FLOATS)
}

pub(crate) fn size(count: usize) -> i64 {
    i64::try_from(count).unwrap()
}

/// What a panic said.
pub(crate) fn panic_of(work: impl FnOnce()) -> String {
    let payload = panic::catch_unwind(panic::AssertUnwindSafe(work)).expect_err("it panics");
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => (*other.downcast::<&str>().expect("a text")).to_owned(),
    }
}
