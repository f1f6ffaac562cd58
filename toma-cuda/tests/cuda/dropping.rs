//! Errors that cudarc meets while it drops values, and can only return later.

use std::cell::Cell;

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;
use toma_core::cache::NoCache;
use toma_core::execute;
use toma_cuda::Device;

use crate::function::Function;
use crate::stage::{Double, device, stream, with_double, zeros};

/// Runs out of memory at 64, where dropping what was allocated fails with `code` if one is given; says
/// how many attempts there were, and what came out.
fn batch(
    double: &Double,
    device: Option<&Device>,
    code: impl Into<Option<CUresult>>,
) -> (usize, Result<usize, DriverError>) {
    double.set_total(100);
    let own = self::device();
    let stream = stream(device.unwrap_or(&own));
    let (attempts, code) = (Cell::new(0), code.into());
    let body = |batch_size| {
        attempts.set(attempts.get() + 1);
        let _held = zeros(&stream, batch_size)?;
        if let Some(code) = code.filter(|_| attempts.get() == 1) {
            double.fail(Function::Free, 0, code);
        }
        zeros(&stream, batch_size).map(|_| batch_size)
    };
    let result = match device {
        Some(device) => execute::with::<NoCache>().device(device).batch(64, body),
        None => execute::with::<NoCache>().batch(64, body),
    };
    (attempts.get(), result)
}

#[test]
fn the_retry_does_not_get_the_error_of_what_was_dropped_and_the_error_is_kept() {
    with_double(|double| {
        let device = device();
        let code = CUresult::CUDA_ERROR_INVALID_HANDLE;
        assert_eq!(batch(double, Some(&device), code), (2, Ok(32)));
        assert_eq!(device.clone().take_drop_error(), Some(DriverError(code)), "clones are one device");
        assert_eq!(device.take_drop_error(), None, "once");
        assert!(device.context().check_err().is_ok());
    });
}

/// The reason for taking it: without the device it stays, and the retry fails with it.
#[test]
fn without_the_device_the_retry_fails_with_it() {
    with_double(|double| {
        let code = CUresult::CUDA_ERROR_INVALID_HANDLE;
        assert_eq!(batch(double, None, code), (2, Err(DriverError(code))));
    });
}

#[test]
fn an_out_of_memory_left_behind_shrinks_no_second_time() {
    with_double(|double| {
        let device = device();
        let code = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        assert_eq!(batch(double, Some(&device), code), (2, Ok(32)));
        assert_eq!(device.take_drop_error(), Some(DriverError(code)));
    });
}

#[test]
fn a_poisoned_context_that_shows_while_dropping_ends_the_loop() {
    with_double(|double| {
        let device = device();
        let code = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
        assert_eq!(batch(double, Some(&device), code), (2, Err(DriverError(code))));
        assert_eq!(device.take_drop_error(), None);
    });
}

#[test]
fn a_poisoned_context_that_shows_while_waiting_ends_the_loop() {
    with_double(|double| {
        let device = device();
        let code = CUresult::CUDA_ERROR_LAUNCH_FAILED;
        double.fail(Function::Synchronize, 0, code);
        assert_eq!(batch(double, Some(&device), None), (2, Err(DriverError(code))));
        assert_eq!(double.calls(Function::Trim), 0);
    });
}

#[test]
fn a_pool_that_cannot_be_trimmed_stops_no_loop() {
    with_double(|double| {
        let device = device();
        double.set_total(100);
        let stream = stream(&device);
        double.fail(Function::Trim, 0, CUresult::CUDA_ERROR_NOT_SUPPORTED);
        let size = execute::with::<NoCache>()
            .device(&device)
            .batch(256, |batch_size| zeros(&stream, batch_size).map(|_| batch_size));
        assert_eq!(size, Ok(64));
        assert_eq!(device.take_drop_error().unwrap().0, CUresult::CUDA_ERROR_NOT_SUPPORTED);
    });
}

#[test]
fn an_error_from_before_the_loop_is_the_first_attempts_as_cudarc_has_it() {
    with_double(|double| {
        let device = device();
        let stream = stream(&device);
        let slice = zeros(&stream, 8).unwrap();
        double.fail(Function::Free, 0, CUresult::CUDA_ERROR_INVALID_HANDLE);
        drop(slice);
        let first = execute::with::<NoCache>().device(&device).batch(8, |size| zeros(&stream, size));
        assert_eq!(first.unwrap_err().0, CUresult::CUDA_ERROR_INVALID_HANDLE);
    });
}
