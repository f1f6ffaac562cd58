//! The allocator counts exactly, and refuses exactly the requests that exceed the budget.

use std::thread;

use tch::Tensor;
use toma_core::classify::{Class, Classify as _};
use toma_torch::cpu::{self, Budget, FailingAllocation};

use crate::ground;
use crate::stage::{ROW, alone, rows};

#[test]
fn bytes_go_up_and_come_back() {
    let _alone = alone();
    let before = cpu::allocated_bytes();
    cpu::reset_peak_allocated_bytes();
    let (first, second) = (rows(3), rows(2));
    assert_eq!(cpu::allocated_bytes(), before + 5 * ROW);
    let view = first.narrow(0, 1, 1);
    assert_eq!(cpu::allocated_bytes(), before + 5 * ROW, "views share");
    drop((first, second));
    assert_eq!(cpu::allocated_bytes(), before + 3 * ROW, "a view keeps the storage");
    drop(view);
    assert_eq!(cpu::allocated_bytes(), before);
    assert_eq!(cpu::peak_allocated_bytes(), before + 5 * ROW);
    cpu::reset_peak_allocated_bytes();
    assert_eq!(cpu::peak_allocated_bytes(), before);
}

#[test]
fn tensors_of_any_way_of_making_are_counted_and_aligned() {
    let _alone = alone();
    let before = cpu::allocated_bytes();
    let mut tensors = vec![
        Tensor::from_slice(&[1_u8, 2, 3]),
        Tensor::rand([7, 3], ground::floats()),
        Tensor::zeros([0, 5], ground::floats()),
        Tensor::ones([1], ground::floats()).repeat([1000]),
    ];
    let bytes = 3 + 84 + 4000;
    assert_eq!(cpu::allocated_bytes(), before + bytes);
    for tensor in &tensors {
        assert_eq!(tensor.data_ptr().addr() % 64, 0);
    }
    let _ = tensors[1].resize_([70, 3]);
    assert_eq!(cpu::allocated_bytes(), before + bytes + 840 - 84);
    drop(tensors);
    assert_eq!(cpu::allocated_bytes(), before);
}

#[test]
fn a_budget_refuses_from_the_first_byte_too_many() {
    let _alone = alone();
    let before = cpu::allocated_bytes();
    let refused = || toma_torch::Device::new(tch::Device::Cpu).stats().unwrap().ooms;
    let refused_before = refused();
    let _budget = Budget::beyond_allocated(2 * ROW);
    let exact = rows(2);
    let error = Tensor::f_zeros([1], ground::floats()).unwrap_err();
    let failure = error.classify();
    assert_eq!((failure.class, failure.requested_bytes), (Class::OutOfMemory, Some(4)), "{error}");
    assert!(!error.to_string().contains("frame #"), "{error}");
    assert_eq!(refused(), refused_before + 1);
    drop(exact);
    assert_eq!(cpu::allocated_bytes(), before);
    // An empty tensor needs no bytes.
    assert!(Tensor::f_zeros([0], ground::floats()).is_ok());
    assert!(Tensor::f_zeros([2048], ground::floats()).is_ok());
}

#[test]
fn the_smallest_living_budget_holds_whatever_order_they_begin_and_end_in() {
    let _alone = alone();
    assert_eq!(Budget::current(), None);
    let _held = rows(4);
    let wide = Budget::new(u64::MAX / 2);
    let narrow = Budget::new(0);
    let widest = Budget::new(u64::MAX);
    assert_eq!(Budget::current(), Some(0));
    assert!(Tensor::f_zeros([1], ground::floats()).is_err());
    let twin = Budget::new(0);
    drop((wide, narrow));
    assert_eq!(Budget::current(), Some(0));
    drop(twin);
    assert_eq!(Budget::current(), None, "the largest number there is, is no limit");
    drop(widest);
    assert!(Tensor::f_zeros([1], ground::floats()).is_ok());
}

#[test]
fn threads_that_race_for_the_last_bytes_never_exceed_them_and_leave_none_unused() {
    let _alone = alone();
    let before = cpu::allocated_bytes();
    let _budget = Budget::beyond_allocated(10 * ROW);
    cpu::reset_peak_allocated_bytes();
    let winners: usize = thread::scope(|scope| {
        let racer =
            || (0..8).filter_map(|_| Tensor::f_zeros([1024], ground::floats()).ok()).collect::<Vec<_>>();
        // Held until all threads are done.
        let racers: Vec<_> = (0..4).map(|_| scope.spawn(racer)).collect();
        let held: Vec<_> = racers.into_iter().map(|racer| racer.join().unwrap()).collect();
        held.iter().map(Vec::len).sum()
    });
    assert_eq!(winners, 10);
    assert_eq!(cpu::peak_allocated_bytes(), before + 10 * ROW);
    assert_eq!(cpu::allocated_bytes(), before);
}

#[test]
fn sizes_that_are_a_mistake_are_not_out_of_memory_and_those_beyond_all_addresses_are() {
    let _alone = alone();
    let before = cpu::allocated_bytes();
    cpu::reset_peak_allocated_bytes();
    let [mistake, too_large] = [Class::Other, Class::OutOfMemory];
    for (sizes, class) in [
        ([-1, 1], mistake),
        ([1 << 40, 1 << 40], mistake),
        ([1, i64::MAX / 4], too_large),
        ([1, i64::MAX / 4 - 16], too_large),
        ([2, 1 << 58], too_large),
    ] {
        let error = Tensor::f_empty(sizes, ground::floats()).unwrap_err();
        assert_eq!(error.classify().class, class, "{error}");
        assert_eq!([cpu::allocated_bytes(), cpu::peak_allocated_bytes()], [before; 2], "{sizes:?}");
    }
}

#[test]
fn an_injected_failure_comes_once_on_its_own_thread_and_goes_with_its_guard() {
    let _alone = alone();
    let is_refused = || Tensor::f_zeros([1], ground::floats()).is_err();
    let failing = FailingAllocation::after(1);
    assert!(!thread::spawn(move || is_refused() || is_refused()).join().unwrap());
    assert!(!failing.has_failed());
    assert_eq!([is_refused(), is_refused(), is_refused()], [false, true, false]);
    assert!(failing.has_failed());
    let outer = FailingAllocation::after(0);
    drop(FailingAllocation::after(5));
    assert!(!outer.has_failed(), "an inner guard arms again what it found");
    drop(outer);
    assert!(!is_refused());
}
