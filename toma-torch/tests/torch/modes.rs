//! Modes of a thread are restored however an attempt ends, without code in the body. The engine decides when, also for
//! tasks: its tests need no libtorch.

use std::panic::catch_unwind;

use tch::Tensor;
use toma::execute;
use toma_core::NoCache;
use toma_torch::ModeGuard;
use toma_torch::cpu::Budget;

use crate::stage::{FLOATS, ROW, alone, printed_by, rows};

/// Returns true if operators of this thread record gradients.
fn records() -> bool {
    let weight = Tensor::ones([2], FLOATS).set_requires_grad(true);
    (weight * 2.0).requires_grad()
}

#[test]
fn grad_mode_survives_a_panic_inside_no_grad_and_with_grad() {
    let _alone = alone();
    let _budget = Budget::beyond_allocated(4 * ROW);
    let mut modes = Vec::new();
    let printed = printed_by(|| {
        execute::with::<NoCache>().batch(8, |batch_size| {
            modes.push(records());
            tch::no_grad(|| drop(rows(batch_size)));
        });
        assert!(records());
        let _off = tch::no_grad_guard();
        execute::with::<NoCache>().batch(8, |batch_size| {
            modes.push(records());
            tch::with_grad(|| drop(rows(batch_size)));
        });
        assert!(!records());
    });
    assert_eq!((modes, printed), (vec![true, true, false, false], 0));
}

#[test]
fn without_a_guard_the_mode_is_lost() {
    let _alone = alone();
    // The reason for the guards. When this fails tch has fixed it, and they can go.
    let guard = ModeGuard::new();
    let failed = catch_unwind(|| tch::no_grad(|| panic!("CUDA out of memory.")));
    assert!(failed.is_err());
    assert!(!records());
    drop(guard);
    assert!(records());
}

#[test]
fn guards_nest() {
    let _alone = alone();
    let outer = ModeGuard::new();
    let off = tch::no_grad_guard();
    let inner = ModeGuard::new();
    tch::with_grad(|| std::mem::forget(inner));
    assert!(!records());
    drop(outer);
    assert!(records());
    drop(off);
    assert!(records());
}
