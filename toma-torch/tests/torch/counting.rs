//! The allocator counts to the byte, and refuses exactly what exceeds the budget.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tch::{Device, Kind, Tensor};
use toma_core::classify::{Class, Classify as _};
use toma_torch::cpu::{self, Budget, FailingAllocation};

use crate::stage::{FLOATS, ROW, alone, in_child, rows};

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
        Tensor::rand([7, 3], FLOATS),
        Tensor::zeros([0, 5], FLOATS),
        Tensor::ones([1], FLOATS).repeat([1000]),
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
    let refused = cpu::stats().ooms;
    let _budget = Budget::beyond_allocated(2 * ROW);
    let exact = rows(2);
    let error = Tensor::f_zeros([1], FLOATS).unwrap_err();
    let failure = error.classify();
    assert_eq!((failure.class, failure.requested_bytes), (Class::OutOfMemory, Some(4)), "{error}");
    assert!(!error.to_string().contains("frame #"), "{error}");
    assert_eq!(cpu::stats().ooms, refused + 1);
    drop(exact);
    assert_eq!(cpu::allocated_bytes(), before);
    // Nothing is as good as no bytes.
    assert!(Tensor::f_zeros([0], FLOATS).is_ok());
    assert!(Tensor::f_zeros([2048], FLOATS).is_ok());
}

#[test]
fn the_smallest_living_budget_holds_whatever_order_they_begin_and_end_in() {
    let _alone = alone();
    assert_eq!(Budget::in_force(), None);
    let wide = Budget::new(u64::MAX / 2);
    let narrow = Budget::new(0);
    let widest = Budget::new(u64::MAX);
    assert_eq!(Budget::in_force(), Some(0));
    assert!(Tensor::f_zeros([1], FLOATS).is_err());
    let twin = Budget::new(0);
    drop((wide, narrow));
    assert_eq!(Budget::in_force(), Some(0));
    drop(twin);
    assert_eq!(Budget::in_force(), None, "the largest number there is, is no limit");
    drop(widest);
    assert!(Tensor::f_zeros([1], FLOATS).is_ok());
}

#[test]
fn a_budget_below_what_is_allocated_refuses_without_wrapping() {
    let _alone = alone();
    let held = rows(4);
    let _budget = Budget::new(cpu::allocated_bytes() - 1);
    assert!(Tensor::f_zeros([1], FLOATS).is_err());
    assert_eq!(held.size(), [4, 1024]);
}

#[test]
fn threads_that_race_for_the_last_bytes_never_exceed_them_and_leave_none_unused() {
    let _alone = alone();
    let before = cpu::allocated_bytes();
    let _budget = Budget::beyond_allocated(10 * ROW);
    cpu::reset_peak_allocated_bytes();
    let winners: usize = thread::scope(|scope| {
        let racer = || (0..8).filter_map(|_| Tensor::f_zeros([1024], FLOATS).ok()).collect::<Vec<_>>();
        // Held until all are done.
        let racers: Vec<_> = (0..4).map(|_| scope.spawn(racer)).collect();
        let held: Vec<_> = racers.into_iter().map(|racer| racer.join().unwrap()).collect();
        held.iter().map(Vec::len).sum()
    });
    assert_eq!(winners, 10);
    assert_eq!(cpu::peak_allocated_bytes(), before + 10 * ROW);
    assert_eq!(cpu::allocated_bytes(), before);
}

#[test]
fn sizes_that_are_a_mistake_are_not_out_of_memory() {
    let _alone = alone();
    let before = cpu::allocated_bytes();
    for wrong in [[-1, 1], [1 << 40, 1 << 40]] {
        let error = Tensor::f_empty(wrong, FLOATS).unwrap_err();
        assert_eq!(error.classify().class, Class::Other, "{error}");
    }
    assert_eq!(cpu::allocated_bytes(), before);
}

#[test]
fn sizes_beyond_all_addresses_are_refused_and_not_counted() {
    let _alone = alone();
    let before = cpu::allocated_bytes();
    cpu::reset_peak_allocated_bytes();
    let doubles = i64::MAX / 8;
    for size in [doubles, doubles - 8, 1 << 58] {
        let error = Tensor::f_empty([size], (Kind::Double, Device::Cpu)).unwrap_err();
        assert_eq!(error.classify().class, Class::OutOfMemory, "{error}");
        assert_eq!([cpu::allocated_bytes(), cpu::peak_allocated_bytes()], [before; 2], "{size}");
    }
    assert!(Tensor::f_zeros([1], FLOATS).is_ok());
}

#[test]
fn an_injected_failure_comes_once_on_its_own_thread_and_goes_with_its_guard() {
    let _alone = alone();
    let is_refused = || Tensor::f_zeros([1], FLOATS).is_err();
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

/// Blocks that libraries take raw are freed through whatever allocator is set at that moment.
#[test]
fn counting_begins_while_blocks_from_before_live_and_convolutions_run() {
    if !in_child("counting::counting_begins_while_blocks_from_before_live_and_convolutions_run") {
        return;
    }
    let before = Tensor::rand([4, 300], FLOATS).to_mkldnn();
    let (began, done) = (Barrier::new(2), AtomicBool::new(false));
    thread::scope(|scope| {
        let convolve = || {
            let (image, weight) = (Tensor::rand([2, 3, 32, 32], FLOATS), Tensor::rand([8, 3, 3, 3], FLOATS));
            let once = || image.conv2d(&weight, None::<&Tensor>, 1, 0, 1, 1);
            let right = once();
            began.wait();
            while !done.load(Ordering::Relaxed) {
                assert_eq!(once(), right);
            }
        };
        scope.spawn(convolve);
        began.wait();
        cpu::count();
        let counted = rows(1);
        drop((before, Tensor::rand([4, 300], FLOATS).to_mkldnn()));
        assert!(cpu::allocated_bytes() >= ROW, "{}", cpu::allocated_bytes());
        drop(counted);
        thread::sleep(Duration::from_millis(100));
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(cpu::allocated_bytes(), 0, "blocks from before are not counted");
}
