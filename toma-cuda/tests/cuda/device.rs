//! A device as a memory source.

use cudarc::driver::result::ctx;
use cudarc::driver::sys::CUresult;
use toma_core::classify::{Class, Classify as _};
use toma_core::memory::{MemorySource as _, Usage};
use toma_cuda::Device;

use crate::function::{Function, Request};
use crate::stage::{with_device, with_double, zeros};

const TOTAL: u64 = 1000;

#[test]
fn free_is_what_the_driver_has_left_and_what_the_pool_holds_back() {
    with_device(|double, device, stream| {
        double.set_total(TOTAL);
        assert_eq!(device.name(), "cuda:0");
        let read = || device.read().unwrap();
        assert_eq!((read().free_bytes, read().total_bytes), (TOTAL, TOTAL));
        let (first, second) = (zeros(stream, 300).unwrap(), zeros(stream, 100).unwrap());
        assert_eq!(read().free_bytes, 600);
        drop(first);
        assert_eq!((double.ask(Request::UsedBytes), double.ask(Request::TakenBytes)), (100, 400));
        assert_eq!(read().free_bytes, 900, "the pool holds 300 back, which it would give out again");
        device.release_cached_memory();
        assert_eq!((double.ask(Request::TakenBytes), read().free_bytes), (100, 900));
        assert_eq!((double.calls(Function::Synchronize), double.calls(Function::Trim)), (1, 1));
        drop((second, zeros(stream, 800).unwrap()));
        // Another program took memory that this one has allocated: free bytes must not exceed the total.
        double.set_total(500);
        assert_eq!((read().free_bytes, read().total_bytes), (500, 500));
    });
}

#[test]
fn without_memory_pools_there_is_nothing_to_trim() {
    with_double(|double| {
        double.ask(Request::WithoutPools);
        double.set_total(TOTAL);
        let device = Device::new(0).unwrap();
        let stream = &device.context().default_stream();
        let slice = zeros(stream, 300).unwrap();
        assert_eq!(device.read().unwrap().free_bytes, 700);
        device.reset_peak();
        assert_eq!(device.usage(), None, "nothing counts");
        drop(slice);
        device.release_cached_memory();
        assert_eq!((double.ask(Request::TakenBytes), double.calls(Function::Trim)), (0, 0));
        assert_eq!(device.take_drop_error(), None);
    });
}

#[test]
fn the_pool_counts_what_slices_hold_and_held_at_most() {
    with_device(|double, device, stream| {
        double.set_total(TOTAL);
        let usage = || device.usage().unwrap();
        let held = zeros(stream, 300).unwrap();
        drop(zeros(stream, 100).unwrap());
        assert_eq!(usage(), Usage::new(300, 400));
        device.reset_peak();
        assert_eq!(usage(), Usage::new(300, 300));
        drop(zeros(stream, 200).unwrap());
        assert_eq!(usage(), Usage::new(300, 500));
        drop(held);
        assert_eq!(usage(), Usage::new(0, 500));
        let other = Device::new(1).unwrap();
        assert_eq!(other.usage(), Some(Usage::new(0, 0)), "each device has a pool of its own");
        double.poison(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
        device.reset_peak();
        assert_eq!(device.usage(), None);
    });
}

#[test]
fn reading_and_releasing_leave_the_current_context_as_it_was() {
    with_device(|_, first, _| {
        let second = Device::new(1).unwrap();
        assert_eq!(second.name(), "cuda:1");
        for context in [first.context(), second.context()] {
            context.bind_to_thread().unwrap();
            let before = ctx::get_current().unwrap();
            for device in [first, &second] {
                device.read().unwrap();
                device.release_cached_memory();
                assert_eq!(ctx::get_current().unwrap(), before);
            }
        }
        let first = first.clone();
        let none = std::thread::spawn(move || {
            first.read().unwrap();
            ctx::get_current().unwrap().is_none()
        });
        assert!(none.join().unwrap(), "a thread without a context is left without one");
    });
}

/// A thread may have a context that its owner has destroyed, and which cannot become current again.
#[test]
fn a_context_that_is_gone_costs_no_reading() {
    with_device(|double, first, _| {
        let second = Device::new(1).unwrap();
        second.context().bind_to_thread().unwrap();
        double.fail(Function::SetCurrent, 1, CUresult::CUDA_ERROR_INVALID_CONTEXT);
        assert_eq!(first.read().unwrap().total_bytes, 1 << 20);
        assert_eq!(double.calls(Function::SetCurrent), 4, "two to begin with, and two for the reading");
        assert_eq!(ctx::get_current().unwrap(), Some(first.context().cu_ctx()));
    });
}

#[test]
fn each_device_is_read_by_itself() {
    with_device(|double, first, _| {
        double.set_total(TOTAL);
        let second = Device::new(1).unwrap();
        let held = zeros(&second.context().default_stream(), 256).unwrap();
        assert_eq!(first.read().unwrap().free_bytes, TOTAL);
        let reading = second.read().unwrap();
        assert_eq!(reading.free_bytes, reading.total_bytes - 256);
        assert_eq!(Device::of(held.context()).name(), "cuda:1");
    });
}

#[test]
fn a_failed_reading_has_its_reason_and_takes_no_error_of_the_programs() {
    with_device(|double, device, stream| {
        double.fail(Function::Information, 0, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
        let error = device.read().unwrap_err();
        assert_eq!(error.to_string(), "cuda:0: cannot read its memory (CUDA_ERROR_ILLEGAL_ADDRESS)");
        assert_eq!(error.classify().class, Class::Poisoned);
        let slice = zeros(stream, 8).unwrap();
        double.fail(Function::Free, 0, CUresult::CUDA_ERROR_INVALID_VALUE);
        drop(slice);
        assert!(device.read().is_ok());
        assert_eq!(device.context().check_err().unwrap_err().0, CUresult::CUDA_ERROR_INVALID_VALUE);
    });
}
