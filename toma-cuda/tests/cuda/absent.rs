//! Without a driver, or with one that sees no device: clear errors, and no panic.

use std::io;

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;
use toma_core::classify::{Class, Classify as _, classify_panic};
use toma_cuda::Device;

use crate::function::{Function, Request};
use crate::stage::{with_double, without_driver};

#[test]
fn without_a_driver_a_device_is_refused_with_the_reason() {
    without_driver(|| {
        for index in [0, 7, usize::MAX] {
            let error = Device::new(index).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
            assert_eq!(error.to_string(), format!("cuda:{index}: no CUDA driver on this machine"));
            assert_eq!(error.classify().class, Class::Other);
        }
    });
}

/// The error asks the driver for its text, and panics if there is no driver.
#[test]
fn without_a_driver_an_error_is_classified_all_the_same() {
    without_driver(|| {
        let error = DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        let failure = error.classify();
        assert_eq!(failure.class, Class::OutOfMemory);
        assert_eq!(failure.message, "CUDA_ERROR_OUT_OF_MEMORY");
        assert_eq!(classify_panic(&DriverError(CUresult::CUDA_ERROR_ASSERT)).class, Class::Poisoned);
    });
}

#[test]
fn an_index_beyond_the_devices_is_named() {
    with_double(|_| {
        assert!(Device::new(1).is_ok());
        for index in [2, 1 << 31, usize::MAX] {
            let error = Device::new(index).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            assert_eq!(error.to_string(), format!("cuda:{index}: no such device; the driver sees 2"));
        }
    });
}

#[test]
fn a_driver_without_devices_has_none() {
    with_double(|double| {
        double.ask(Request::SetDeviceCount(0));
        assert_eq!(Device::new(0).unwrap_err().kind(), io::ErrorKind::NotFound);
        // The code that the driver returns on a machine without a device.
        double.fail(Function::Initialize, 0, CUresult::CUDA_ERROR_NO_DEVICE);
        let error = Device::new(0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(error.to_string(), "cuda:0: cannot count devices (CUDA_ERROR_NO_DEVICE)");
    });
}

#[test]
fn an_error_of_the_driver_keeps_its_class() {
    with_double(|double| {
        for (code, kind, class) in [
            (CUresult::CUDA_ERROR_OUT_OF_MEMORY, io::ErrorKind::OutOfMemory, Class::OutOfMemory),
            (CUresult::CUDA_ERROR_ECC_UNCORRECTABLE, io::ErrorKind::Other, Class::Poisoned),
            (CUresult::CUDA_ERROR_STUB_LIBRARY, io::ErrorKind::Unsupported, Class::Other),
            (CUresult::CUDA_ERROR_SYSTEM_NOT_READY, io::ErrorKind::Other, Class::Other),
        ] {
            double.fail(Function::Initialize, 0, code);
            let error = Device::new(0).unwrap_err();
            assert_eq!((error.kind(), error.classify().class), (kind, class), "{error}");
        }
    });
}
