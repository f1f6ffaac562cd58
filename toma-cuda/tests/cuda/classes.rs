//! Errors of the driver are classified by their codes, however they are wrapped.

use std::error::Error;
use std::fmt;
use std::io;
use std::panic::{catch_unwind, panic_any};
use std::sync::Arc;

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;
use toma_core::classify::{Class, Classify as _, classify_panic};

use crate::stage::with_double;

const OUT_OF_MEMORY: DriverError = DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
const ILLEGAL_ADDRESS: DriverError = DriverError(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);

/// Codes that leave the context unusable, according to the driver's manual.
const POISONED: &[CUresult] = &[
    CUresult::CUDA_ERROR_ECC_UNCORRECTABLE,
    CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE,
    CUresult::CUDA_ERROR_CONTAINED,
    CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
    CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
    CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
    CUresult::CUDA_ERROR_ASSERT,
    CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR,
    CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
    CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE,
    CUresult::CUDA_ERROR_INVALID_PC,
    CUresult::CUDA_ERROR_LAUNCH_FAILED,
    CUresult::CUDA_ERROR_TENSOR_MEMORY_LEAK,
    CUresult::CUDA_ERROR_MPS_CLIENT_TERMINATED,
    CUresult::CUDA_ERROR_EXTERNAL_DEVICE,
];

const OTHER: &[CUresult] = &[
    CUresult::CUDA_ERROR_INVALID_VALUE,
    CUresult::CUDA_ERROR_DEINITIALIZED,
    CUresult::CUDA_ERROR_NO_DEVICE,
    CUresult::CUDA_ERROR_INVALID_CONTEXT,
    CUresult::CUDA_ERROR_MAP_FAILED,
    CUresult::CUDA_ERROR_OPERATING_SYSTEM,
    CUresult::CUDA_ERROR_NOT_READY,
    CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
    CUresult::CUDA_ERROR_SYSTEM_NOT_READY,
    CUresult::CUDA_ERROR_MPS_SERVER_NOT_READY,
    CUresult::CUDA_ERROR_UNKNOWN,
];

/// An error around another, with a text that would decide the class if there were no type.
#[derive(Debug)]
struct Around(DriverError, &'static str);

impl fmt::Display for Around {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.1)
    }
}

impl Error for Around {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

/// Returns the classes of the typed error, and of the text that an `unwrap` of it leaves.
fn classes(code: CUresult) -> [Class; 2] {
    let error = DriverError(code);
    [error.classify().class, class_of_unwrap(Err(error))]
}

fn class_of_unwrap(result: Result<(), DriverError>) -> Class {
    let text = catch_unwind(|| result.unwrap()).unwrap_err();
    classify_panic(&*text).class
}

#[test]
fn every_code_means_the_same_as_a_type_and_as_the_text_of_a_panic() {
    with_double(|_| {
        assert_eq!(classes(OUT_OF_MEMORY.0), [Class::OutOfMemory; 2]);
        let words = OUT_OF_MEMORY.classify().message;
        assert_eq!(words, "DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")", "the driver's");
        for code in POISONED {
            assert_eq!(classes(*code), [Class::Poisoned; 2], "{code:?}");
        }
        for code in OTHER {
            assert_eq!(classes(*code), [Class::Other; 2], "{code:?}");
        }
    });
}

#[test]
fn a_code_is_found_anywhere_in_a_chain_before_any_text() {
    with_double(|_| {
        let chains: [Box<dyn Error>; 5] = [
            Box::new(OUT_OF_MEMORY),
            Box::new(Around(OUT_OF_MEMORY, "an illegal memory access was encountered")),
            Box::new(Arc::new(OUT_OF_MEMORY)),
            Box::new(io::Error::other(OUT_OF_MEMORY)),
            Box::new(io::Error::other(Box::new(Around(OUT_OF_MEMORY, "no text that says anything")))),
        ];
        for chain in chains {
            assert_eq!(chain.classify().class, Class::OutOfMemory, "{chain:?}");
        }
        let lying = Around(ILLEGAL_ADDRESS, "CUDA out of memory. Tried to allocate 2.00 GiB");
        assert_eq!(lying.classify().class, Class::Poisoned);
        let harmless = Around(DriverError(CUresult::CUDA_ERROR_INVALID_VALUE), "CUDA error: out of memory");
        assert_eq!(harmless.classify().class, Class::Other);
    });
}

#[test]
fn a_code_is_found_in_payloads_of_panics() {
    with_double(|_| {
        let class = |throw: fn() -> ()| classify_panic(&*catch_unwind(throw).unwrap_err()).class;
        assert_eq!(class(|| panic_any(OUT_OF_MEMORY)), Class::OutOfMemory);
        let boxed = || panic_any(Box::<dyn Error + Send + Sync>::from(OUT_OF_MEMORY));
        assert_eq!(class(boxed), Class::OutOfMemory);
        assert_eq!(class(|| panic_any(ILLEGAL_ADDRESS)), Class::Poisoned);
    });
}
