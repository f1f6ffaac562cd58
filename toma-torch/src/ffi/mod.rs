//! Interface to the shim and to torch-sys: all `unsafe` of this package, behind safe functions. Each module is a file
//! of the shim.
//!
//! No exception leaves the shim: its functions are `noexcept` and return codes. It calls only functions of ours that
//! cannot panic. Pointers that it receives live at least through the call.

#![expect(unsafe_code, reason = "the edge to C++: nothing here can be written in safe Rust")]

mod backtraces;
mod backward;
mod blocks;
mod costs;
mod cpu;
mod device;
mod dry;
mod gradient;
mod modes;
mod observe;
mod offload;
mod operators;
mod profile;
mod region;
mod rng;
mod storage;
mod store;
mod swap;

use std::ffi::{CStr, c_char};
use std::slice;

use crate::error::{Error, ErrorKind};

pub(crate) use backtraces::{install_backtraces, toma_backtraces_quiet};
pub(crate) use backward::{toma_backward_drop_stranded, wait_for_backward};
pub(crate) use blocks::{each_block, each_cpu_block, owner_at, toma_gpu_observe, watch_blocks};
pub(crate) use costs::{Moment, Observes};
pub(crate) use cpu::*;
pub(crate) use device::{
    DeviceId, device_memory, device_segments, device_stats, release_device, reset_device_peak,
};
pub(crate) use dry::{Dry, DryOutcome};
pub(crate) use gradient::{gradient_print, identity, is_sole, set_gradient};
#[cfg(test)]
pub(crate) use modes::enter_autocast;
pub(crate) use modes::{autocast_depth, is_grad_enabled, modes, set_modes, toma_casts_clear};
pub(crate) use observe::Recording;
pub(crate) use offload::{
    Aside, Ended, Manages, Predicts, Rows, install_offloading, register_offloading, relieve_cuda,
    toma_offload_enter, toma_offload_is_forked, toma_offload_is_watched, toma_offload_leave,
    toma_offload_moves,
};
pub(crate) use operators::install_operators;
use profile::{node, operator_of_stack};
pub(crate) use profile::{position, report_operators};
pub(crate) use region::{
    BegunRegion, Chosen, RecordingRegion, Region, RegionOptions, toma_region_cut, toma_region_install,
    toma_region_records,
};
pub(crate) use rng::{rng_state, set_rng_state};
pub(crate) use storage::{TensorMemory, addresses, gradient_addresses, storage_identity, tensor_memory};
pub(crate) use store::Connection;
pub use swap::believe_copies;
pub(crate) use swap::{DeviceMemory, HostBytes, Remembered, StandIn, StorageRef, Use, born_evicted};

/// Error message of the shim.
#[repr(C)]
struct RawError {
    message: [u8; 512],
}

/// Returns the text up to the first zero, which may be cut in the middle of a character.
fn text_of(text: &[c_char]) -> String {
    let text = text.iter().take_while(|&&byte| byte != 0);
    let bytes: Vec<u8> = text.map(|byte| byte.to_ne_bytes()[0]).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// # Safety
/// Same as [`slice::from_raw_parts`], except that a null pointer stands for an empty slice.
unsafe fn slice_of<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: the caller guarantees it.
    unsafe { slice::from_raw_parts(data, count) }
}

/// Runs a function of the shim and converts its code.
fn checked(call: impl FnOnce(&mut RawError) -> i32) -> Result<(), Error> {
    let mut error = RawError { message: [0; 512] };
    let kind = match call(&mut error) {
        0 => return Ok(()),
        1 => ErrorKind::OutOfMemory,
        2 => ErrorKind::NoDevice,
        3 => ErrorKind::Unsupported,
        _ => ErrorKind::Other,
    };
    let message = CStr::from_bytes_until_nul(&error.message).unwrap_or_default();
    // The message may be cut in the middle of a character.
    Err(Error::new(kind, message.to_string_lossy().into_owned()))
}

/// Keeps libtorch's CUDA part in the program.
///
/// libtorch reaches this part only through objects that it registers when it is loaded. No program refers to it, and
/// linkers drop libraries without references, so CUDA would seem to be missing.
#[cfg(libtorch_has_cuda)]
mod keep_cuda {
    unsafe extern "C" {
        // One of the few C names in that library. It is never called.
        fn aoti_torch_cuda_caching_allocator_raw_delete(data: *mut std::ffi::c_void) -> i32;
    }

    #[used]
    static KEPT: unsafe extern "C" fn(*mut std::ffi::c_void) -> i32 =
        aoti_torch_cuda_caching_allocator_raw_delete;
}
