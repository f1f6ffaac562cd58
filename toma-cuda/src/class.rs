//! Classes of the driver's errors.

use cudarc::driver::DriverError;
use toma_core::classify::Class;

/// Classifies an error of the driver by its code.
///
/// `CUDA_ERROR_OUT_OF_MEMORY` is out of memory, codes that leave the context unusable (illegal
/// access, device assert, launch failure and the like) are poisoned, all others are other. None is
/// transient: the driver has one code for memory that ran out and uses it for nothing else, and the
/// codes that may pass (`SYSTEM_NOT_READY`, `MPS_SERVER_NOT_READY`) take longer than an attempt.
pub(crate) fn class_of(error: DriverError) -> Class {
    // By number, because the version that cudarc is compiled for decides which codes have a name.
    match error.0 as u32 {
        // CUDA_ERROR_OUT_OF_MEMORY
        2 => Class::OutOfMemory,
        // After these the driver returns the same for every operation on the context, as its manual says of each:
        // 214 ECC_UNCORRECTABLE, 220 NVLINK_UNCORRECTABLE, 226 CONTAINED, 700 ILLEGAL_ADDRESS,
        // 702 LAUNCH_TIMEOUT, 709 CONTEXT_IS_DESTROYED, 710 ASSERT, 714 HARDWARE_STACK_ERROR,
        // 715 ILLEGAL_INSTRUCTION, 716 MISALIGNED_ADDRESS, 717 INVALID_ADDRESS_SPACE, 718 INVALID_PC,
        // 719 LAUNCH_FAILED, 721 TENSOR_MEMORY_LEAK, 810 MPS_CLIENT_TERMINATED, 911 EXTERNAL_DEVICE.
        214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721 | 810 | 911 => Class::Poisoned,
        _ => Class::Other,
    }
}
