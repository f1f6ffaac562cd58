//! The edge to the shim and to torch-sys: all of this package's `unsafe`, behind safe functions. A
//! module here is a file of the shim.
//!
//! No exception leaves the shim (its functions are `noexcept` and answer with codes), and it calls one
//! function of ours, which cannot panic. Everything it is handed lives on the caller's stack.

#![expect(unsafe_code, reason = "the edge to C++: nothing here can be said in safe Rust")]

mod backtraces;
mod backward;
mod cpu;
mod device;
mod dry;
mod gradient;
mod modes;
mod observe;
mod rng;
mod storage;

use std::ffi::c_char;

use crate::error::{Error, ErrorKind};

pub(crate) use backtraces::{install_backtraces, quiet_backtraces};
pub(crate) use backward::drop_stranded;
pub(crate) use cpu::{
    cpu_allocated_bytes, cpu_budget, cpu_stats, fail_cpu_allocation, install_cpu_allocator, reset_cpu_peak,
    set_cpu_budget,
};
pub(crate) use device::{DeviceId, device_memory, device_stats, release_device, reset_device_peak};
pub(crate) use dry::{Dry, DryOutcome};
pub(crate) use gradient::{identity, is_sole, set_gradient};
pub(crate) use modes::{autocast_depth, clear_casts, modes, set_modes};
#[cfg(test)]
pub(crate) use modes::{enter_autocast, enter_cpu_autocast, set_cpu_autocast_dtype};
pub(crate) use observe::{Event, EventKind, Recording};
pub(crate) use rng::{rng_state, set_rng_state};
pub(crate) use storage::storage_identity;

/// What the shim says of a failure.
#[repr(C)]
struct RawError {
    message: [c_char; 512],
}

impl RawError {
    fn new() -> Self {
        Self { message: [0; 512] }
    }

    fn message(&self) -> String {
        text_of(&self.message)
    }
}

/// A text that ends at the first zero. It is cut in the middle of a character at worst.
fn text_of(text: &[c_char]) -> String {
    let text = text.iter().take_while(|&&byte| byte != 0);
    let bytes: Vec<u8> = text.map(|byte| byte.to_ne_bytes()[0]).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Runs a function of the shim and reads its code.
fn checked(call: impl FnOnce(&mut RawError) -> i32) -> Result<(), Error> {
    let mut error = RawError::new();
    let kind = match call(&mut error) {
        0 => return Ok(()),
        1 => ErrorKind::OutOfMemory,
        2 => ErrorKind::NoDevice,
        3 => ErrorKind::Unsupported,
        _ => ErrorKind::Other,
    };
    Err(Error::new(kind, error.message()))
}

/// Keeps libtorch's CUDA part in the program.
///
/// libtorch reaches it only through what it registers when it is loaded, so no program refers to
/// it, and linkers leave out libraries that nothing refers to: CUDA would seem not to be there.
#[cfg(libtorch_has_cuda)]
mod keep_cuda {
    unsafe extern "C" {
        // One of the few names of it that are C. It is never called.
        fn aoti_torch_cuda_caching_allocator_raw_delete(data: *mut std::ffi::c_void) -> i32;
    }

    #[used]
    static KEPT: unsafe extern "C" fn(*mut std::ffi::c_void) -> i32 =
        aoti_torch_cuda_caching_allocator_raw_delete;
}
