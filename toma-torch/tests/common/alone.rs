//! One test at a time in a process: bytes, budgets and managers are the whole process's.

use std::sync::{Mutex, MutexGuard, PoisonError};

use toma_torch::cpu;

/// Keeps the other tests waiting.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    cpu::count();
    // One order of sums, so that values can be compared exactly. Each thread has its own number.
    tch::set_num_threads(1);
    alone
}
