//! Loops over device memory that runs out.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaStream, DriverError};
use toma_core::NoCache;
use toma_core::memory::MemorySource as _;
use toma_core::{execute, report};

use crate::function::{Function, Request};
use crate::stage::{with_device, zeros};

/// The double's pool reuses 60 bytes for 60 only: without a trim there would be no room for 30 and 30.
#[test]
fn the_pool_is_trimmed_before_a_retry_which_then_succeeds() {
    with_device(|double, device, stream| {
        let two = |size| -> Result<usize, DriverError> {
            let _held = (zeros(stream, size)?, zeros(stream, size)?);
            Ok(size)
        };
        double.set_total(100);
        let lost = execute::with::<NoCache>().min(30).batch(60, two);
        assert_eq!(lost.unwrap_err().0, CUresult::CUDA_ERROR_OUT_OF_MEMORY, "the proof that it takes a trim");
        let settled = execute::with::<NoCache>().device(device).min(30).batch(60, two);
        assert_eq!((settled, double.calls(Function::Trim)), (Ok(30), 1));
    });
}

/// One attempt: three slices that are filled, one from the other, and read back.
fn work(stream: &Arc<CudaStream>, size: usize) -> Result<Vec<u8>, DriverError> {
    let first = stream.clone_htod(&vec![7_u8; size])?;
    let second = stream.clone_dtod(&first)?;
    let mut third = zeros(stream, size)?;
    stream.memcpy_dtod(&second, &mut third)?;
    stream.clone_dtoh(&third)
}

#[test]
fn a_failure_at_every_allocation_and_copy_in_turn_loses_nothing_and_no_value() {
    with_device(|double, device, stream| {
        for (function, count) in [(Function::Allocate, 3), (Function::Copy, 5)] {
            for failing in 0..count {
                let sizes = RefCell::new(Vec::new());
                double.fail(function, failing, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
                let mut values = Vec::new();
                let done = execute::with::<NoCache>().device(device).range(0..8, 8, |start, end| {
                    sizes.borrow_mut().push(end - start);
                    values.extend(work(stream, end - start)?);
                    Ok::<(), DriverError>(())
                });
                done.unwrap();
                assert_eq!((values, sizes.take()), (vec![7; 8], vec![8, 4, 4]), "{function:?} {failing}");
                assert_eq!(double.ask(Request::UsedBytes), 0, "{function:?} {failing}");
                device.release_cached_memory();
                assert_eq!(double.ask(Request::TakenBytes), 0, "{function:?} {failing}");
            }
            // An attempt makes `count` calls of the function, so the first attempt succeeds and the second one fails.
            double.fail(function, count, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
            assert!(work(stream, 8).is_ok());
            assert!(work(stream, 8).is_err());
        }
    });
}

#[test]
fn a_poisoned_context_stops_at_once_and_nothing_is_tried_or_released() {
    with_device(|double, device, stream| {
        let (attempts, undone) = (Cell::new(0), Cell::new(0));
        let poisoned = CUresult::CUDA_ERROR_ASSERT;
        let error = execute::with::<NoCache>()
            .device(device)
            .before_retry(|_| undone.set(undone.get() + 1))
            .range(0..64, 16, |start, end| {
                attempts.set(attempts.get() + 1);
                if start == 16 {
                    double.poison(poisoned);
                }
                let held = zeros(stream, end - start)?;
                drop(held);
                Ok::<(), DriverError>(())
            });
        assert_eq!(error.unwrap_err().0, poisoned);
        assert_eq!((attempts.get(), undone.get()), (2, 0));
        assert_eq!((double.calls(Function::Trim), double.calls(Function::Synchronize)), (0, 0));
        assert_eq!(report::last().unwrap().out_of_memory, 0);
    });
}
