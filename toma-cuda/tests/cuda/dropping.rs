//! Errors that cudarc meets while it drops values, and can only return later.

use std::cell::Cell;
use std::sync::Arc;

use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaStream, DriverError};
use toma_core::NoCache;
use toma_core::execute;
use toma_core::memory::MemorySource as _;
use toma_cuda::Device;

use crate::function::Function;
use crate::stage::{Double, with_device, zeros};

/// Runs out of memory at 64, while dropping the first slice fails with `code`. Returns the number of attempts and the
/// result.
fn batch(
    double: &Double,
    device: Option<&Device>,
    stream: &Arc<CudaStream>,
    code: CUresult,
) -> (usize, Result<usize, DriverError>) {
    double.set_total(100);
    let attempts = Cell::new(0);
    let body = |batch_size| {
        attempts.set(attempts.get() + 1);
        let _held = zeros(stream, batch_size)?;
        if attempts.get() == 1 {
            double.fail(Function::Free, 0, code);
        }
        zeros(stream, batch_size).map(|_| batch_size)
    };
    let result = match device {
        Some(device) => execute::with::<NoCache>().device(device).batch(64, body),
        None => execute::with::<NoCache>().batch(64, body),
    };
    (attempts.get(), result)
}

#[test]
fn the_retry_does_not_get_the_error_of_what_was_dropped_unless_it_is_poison() {
    with_device(|double, device, stream| {
        let harmless = DriverError(CUresult::CUDA_ERROR_INVALID_HANDLE);
        // The reason for taking the error: without the device it stays, and the retry fails with it.
        assert_eq!(batch(double, None, stream, harmless.0), (2, Err(harmless)));
        // An out-of-memory error from a drop does not shrink the batch a second time.
        for error in [harmless, DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)] {
            device.release_cached_memory();
            assert_eq!(batch(double, Some(device), stream, error.0), (2, Ok(32)));
            assert_eq!(device.clone().take_drop_error(), Some(error), "clones are one device");
            assert_eq!(device.take_drop_error(), None, "once");
            assert!(device.context().check_err().is_ok());
        }
        device.release_cached_memory();
        let poison = DriverError(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
        assert_eq!(batch(double, Some(device), stream, poison.0), (2, Err(poison)));
        assert_eq!(device.take_drop_error(), None);
    });
}

#[test]
fn a_poisoned_context_that_shows_while_waiting_ends_the_loop() {
    with_device(|double, device, stream| {
        double.set_total(100);
        double.fail(Function::Synchronize, 0, CUresult::CUDA_ERROR_LAUNCH_FAILED);
        let done = execute::with::<NoCache>().device(device).batch(128, |size| zeros(stream, size));
        assert_eq!(done.unwrap_err().0, CUresult::CUDA_ERROR_LAUNCH_FAILED);
        assert_eq!((double.calls(Function::Allocate), double.calls(Function::Trim)), (1, 0));
    });
}

#[test]
fn a_pool_that_cannot_be_trimmed_stops_no_loop() {
    with_device(|double, device, stream| {
        double.set_total(100);
        double.fail(Function::Trim, 0, CUresult::CUDA_ERROR_NOT_SUPPORTED);
        let done = execute::with::<NoCache>().device(device).batch(256, |size| zeros(stream, size));
        assert_eq!(done.unwrap().len(), 64);
        assert_eq!(device.take_drop_error().unwrap().0, CUresult::CUDA_ERROR_NOT_SUPPORTED);
    });
}

#[test]
fn an_error_from_before_the_loop_is_the_first_attempts_as_cudarc_has_it() {
    with_device(|double, device, stream| {
        let slice = zeros(stream, 8).unwrap();
        double.fail(Function::Free, 0, CUresult::CUDA_ERROR_INVALID_HANDLE);
        drop(slice);
        let first = execute::with::<NoCache>().device(device).batch(8, |size| zeros(stream, size));
        assert_eq!(first.unwrap_err().0, CUresult::CUDA_ERROR_INVALID_HANDLE);
    });
}
