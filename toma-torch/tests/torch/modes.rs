//! Modes of a thread are put back whatever ends an attempt.

use std::panic::catch_unwind;

use tch::Tensor;
use toma_core::cache::NoCache;
use toma_core::execute;
use toma_torch::ModeGuard;
use toma_torch::cpu::Budget;

use crate::stage::{FLOATS, ROW, alone, rows};

fn records_gradients() -> bool {
    let weight = Tensor::ones([2], FLOATS).set_requires_grad(true);
    (weight * 2.0).requires_grad()
}

#[test]
fn grad_mode_survives_a_panic_inside_no_grad_and_with_grad() {
    let _alone = alone();
    let _budget = Budget::beyond_allocated(4 * ROW);
    let mut modes = Vec::new();
    execute::with::<NoCache>().batch(8, |batch_size| {
        let _modes = ModeGuard::new();
        modes.push(records_gradients());
        tch::no_grad(|| drop(rows(batch_size)));
    });
    assert_eq!(modes, [true, true]);
    let _off = tch::no_grad_guard();
    execute::with::<NoCache>().batch(8, |batch_size| {
        let _modes = ModeGuard::new();
        modes.push(records_gradients());
        tch::with_grad(|| drop(rows(batch_size)));
    });
    assert_eq!(modes[2..], [false, false]);
}

#[test]
fn without_a_guard_the_mode_is_lost() {
    let _alone = alone();
    // The reason for the guard. When this fails tch has mended it, and the guard can go.
    let guard = ModeGuard::new();
    let failed = catch_unwind(|| tch::no_grad(|| panic!("CUDA out of memory.")));
    assert!(failed.is_err());
    assert!(!records_gradients());
    drop(guard);
    assert!(records_gradients());
}

#[test]
fn guards_nest() {
    let _alone = alone();
    let outer = ModeGuard::new();
    let off = tch::no_grad_guard();
    let inner = ModeGuard::new();
    tch::with_grad(|| std::mem::forget(inner));
    assert!(!records_gradients());
    drop(outer);
    assert!(records_gradients());
    drop(off);
    assert!(records_gradients());
}
