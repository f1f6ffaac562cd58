//! A program that is merely linked with this package: it calls nothing of it, and there need be no driver.

use std::error::Error;
use std::fmt;

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;
use toma_core::classify::{Class, Classify as _, classify_panic};
use toma_cuda as _;

/// An error whose text says something else than the code below it.
#[derive(Debug)]
struct Around(DriverError);

impl fmt::Display for Around {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an illegal memory access was encountered")
    }
}

impl Error for Around {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

#[test]
fn errors_are_known_by_their_codes() {
    let out_of_memory = DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    assert_eq!(Around(out_of_memory).classify().class, Class::OutOfMemory);
    assert_eq!(classify_panic(&out_of_memory).class, Class::OutOfMemory);
}
