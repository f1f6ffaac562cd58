//! Modes of a thread are restored however an attempt ends, without code in the body. The engine decides when, also for
//! tasks: its tests need no libtorch.

use tch::Tensor;
use toma::execute;
use toma_core::NoCache;
use toma_torch::ModeGuard;

use crate::dry::enter_cpu_autocast;
use crate::ground::{self, Budget};
use crate::stage::{ROW, alone, printed, rows};

/// Returns true if operators of this thread record gradients.
fn records() -> bool {
    let weight = Tensor::ones([2], ground::floats()).set_requires_grad(true);
    (weight * 2.0).requires_grad()
}

#[test]
fn grad_mode_survives_a_panic_inside_no_grad_and_with_grad() {
    let _alone = alone();
    let _budget = Budget::beyond_allocated(4 * ROW);
    let mut modes = Vec::new();
    let ((), printed) = printed(|| {
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

/// No other test allocates or leaves autocast meanwhile, which drops the casts of all threads.
#[test]
fn attempts_that_fail_inside_a_region_leave_nothing_cast() {
    let _alone = alone();
    let weight = Tensor::ones([64, 64], ground::floats()).set_requires_grad(true);
    let input = Tensor::ones([1, 64], ground::floats());
    let before = ground::allocated_bytes();
    let cast = || {
        drop(input.matmul(&weight));
        ground::allocated_bytes() - before
    };
    let (modes, mut found) = (ModeGuard::new(), Vec::new());
    enter_cpu_autocast();
    execute::with::<NoCache>().batch(4, |batch_size| {
        found.push(ground::allocated_bytes() - before);
        cast();
        assert!(batch_size < 2, "CUDA out of memory.");
    });
    let kept = cast();
    drop(modes);
    assert_eq!((found, kept, ground::allocated_bytes() - before), (vec![0; 3], 64 * 64 * 2, 0));
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
