//! A manager that is entered or left while the modes of its thread are saved.

use crate::ground;
use tch::Tensor;
use toma_core::NoCache;
use toma_core::execute;
use toma_torch::ModeGuard;
use toma_torch::offload::{Entered, Lru, Manager, Residency};

use crate::kit::{alone, manager};

/// Returns true if an operator of this thread fetches its arguments.
fn fetches(manager: &Manager) -> bool {
    let tensor = Tensor::ones([1000], ground::floats());
    let handle = manager.adopt(&tensor);
    handle.offload().unwrap();
    let used = tensor.f_square().is_ok();
    assert_eq!(used, handle.residency() == Residency::Resident);
    used
}

#[test]
fn a_guard_from_before_it_was_entered_leaves_it_entered() {
    let _alone = alone();
    let manager = manager(Lru);
    let modes = ModeGuard::new();
    let entered = manager.enter().unwrap();
    drop(modes);
    assert!(fetches(&manager));
    let modes = ModeGuard::new();
    drop(entered);
    drop(modes);
    assert!(!fetches(&manager));
}

#[test]
fn an_attempt_that_enters_it_and_fails_leaves_it_entered() {
    let _alone = alone();
    let manager = manager(Lru);
    let mut entered: Option<Entered> = None;
    execute::with::<NoCache>().batch(4, |batch_size| {
        entered.get_or_insert_with(|| manager.enter().unwrap());
        assert!(batch_size < 2, "CUDA out of memory.");
    });
    assert!(fetches(&manager));
}
