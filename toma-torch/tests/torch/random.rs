//! Random numbers can be drawn again, also where memory is short.

use tch::{Device, Tensor};
use toma_core::cache::NoCache;
use toma_core::execute;
use toma_torch::cpu::{self, Budget, FailingAllocation};
use toma_torch::{ErrorKind, RngState};

use crate::stage::{FLOATS, ROW, alone, rows};

fn draw() -> Tensor {
    Tensor::randn([16], FLOATS)
}

#[test]
fn a_retry_draws_the_numbers_of_the_failed_attempt() {
    let _alone = alone();
    let state = RngState::of(Device::Cpu).unwrap();
    let mut drawn = Vec::new();
    let _budget = Budget::beyond_allocated(4 * ROW);
    execute::with::<NoCache>().before_retry(|_| state.restore().unwrap()).batch(8, |batch_size| {
        drawn.push(draw());
        drop(rows(batch_size));
    });
    assert_eq!(drawn.len(), 3);
    assert!(drawn.iter().all(|numbers| *numbers == drawn[0]));
    assert_ne!(draw(), drawn[0]);
}

#[test]
fn states_need_no_memory_and_leave_none_allocated() {
    let _alone = alone();
    let before = cpu::allocated_bytes();
    cpu::reset_peak_allocated_bytes();
    let state = RngState::of(Device::Cpu).unwrap();
    state.restore().unwrap();
    assert_eq!([cpu::allocated_bytes(), cpu::peak_allocated_bytes()], [before; 2]);
    let numbers = draw();
    let budget = Budget::new(0);
    let failing = FailingAllocation::after(0);
    state.restore().unwrap();
    assert_eq!(RngState::of(Device::Cpu).unwrap(), state);
    assert!(!failing.has_failed());
    drop((budget, failing));
    assert_eq!(draw(), numbers);
}

#[test]
fn a_device_that_is_not_there_has_no_state() {
    let _alone = alone();
    let Err(error) = RngState::of(Device::Cuda(9999)) else { panic!("there is no such device") };
    assert_ne!(error.kind(), ErrorKind::OutOfMemory);
    assert!(!error.to_string().is_empty());
}
