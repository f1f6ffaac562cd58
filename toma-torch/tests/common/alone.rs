//! Runs one test at a time in a process, because bytes, budgets and managers are shared by the whole process.

use std::sync::{Mutex, MutexGuard, PoisonError};

use toma_torch::cpu;

/// Makes the other tests wait.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    cpu::count();
    // A single thread keeps the order of sums fixed, so that values can be compared exactly. The number is per thread.
    tch::set_num_threads(1);
    alone
}
