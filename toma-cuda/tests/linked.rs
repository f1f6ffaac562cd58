//! A program that is merely linked with this package: it calls nothing of it, and works without a driver.

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;
use toma_core::classify::{Class, Classify as _, classify_panic};
use toma_cuda as _;

#[test]
fn errors_are_known_by_their_codes() {
    let out_of_memory = DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    assert_eq!(out_of_memory.classify().class, Class::OutOfMemory);
    assert_eq!(classify_panic(&out_of_memory).class, Class::OutOfMemory);
}
