//! The edge to the shim and to torch-sys: all of this package's `unsafe`, behind safe functions.
//!
//! No exception leaves the shim (its functions are `noexcept` and answer with codes), and it calls one
//! function of ours, which cannot panic. Everything it is handed lives on the caller's stack.

#![expect(unsafe_code, reason = "the edge to C++: nothing here can be said in safe Rust")]

mod tensor;
mod thread;

use std::ffi::c_char;

use crate::error::{Error, ErrorKind};

pub(crate) use tensor::{identity, is_sole, set_gradient};
pub(crate) use thread::{autocast_depth, clear_casts, modes, quiet_traces, set_modes};
#[cfg(test)]
pub(crate) use thread::{enter_autocast, enter_cpu_autocast};

/// Bytes that any generator's state fits into; the CPU's has 5056.
const LARGEST_RNG_STATE: usize = 8192;

/// What the shim says of a failure.
#[repr(C)]
struct RawError {
    message: [c_char; 512],
}

/// `toma_device_stats`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeviceStats {
    pub(crate) allocated_bytes: u64,
    pub(crate) reserved_bytes: u64,
    pub(crate) peak_allocated_bytes: u64,
    pub(crate) peak_reserved_bytes: u64,
    pub(crate) alloc_retries: u64,
    pub(crate) ooms: u64,
}

/// `toma_cpu_stats`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuStats {
    pub(crate) allocated_bytes: u64,
    pub(crate) peak_allocated_bytes: u64,
    pub(crate) allocations: u64,
    pub(crate) ooms: u64,
    /// The limit in force, `u64::MAX` for none.
    pub(crate) budget_bytes: u64,
}

/// A device as the shim knows it: the number of its kind in c10, and its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    kind: i32,
    index: i32,
}

// Sound to call with any numbers, from any thread: the shim checks what it is given, and what it
// touches is atomic or of the calling thread.
unsafe extern "C" {
    safe fn toma_cpu_install();
    safe fn toma_cpu_reset_peak();
    safe fn toma_cpu_set_budget(bytes: u64);
    safe fn toma_cpu_fail_after(skip: i64) -> i64;
    safe fn toma_cpu_stats_get(out: &mut CpuStats);
    safe fn toma_device_stats_get(kind: i32, index: i32, out: &mut DeviceStats, error: &mut RawError) -> i32;
    safe fn toma_device_memory(
        kind: i32,
        index: i32,
        free: &mut u64,
        total: &mut u64,
        error: &mut RawError,
    ) -> i32;
    safe fn toma_device_release(kind: i32, index: i32, error: &mut RawError) -> i32;
    safe fn toma_device_reset_peak(kind: i32, index: i32, error: &mut RawError) -> i32;
    // These read or write as many bytes as they are told.
    fn toma_rng_get(
        kind: i32,
        index: i32,
        out: *mut u8,
        capacity: usize,
        size: *mut usize,
        error: *mut RawError,
    ) -> i32;
    fn toma_rng_set(kind: i32, index: i32, state: *const u8, size: usize, error: *mut RawError) -> i32;
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

impl Place {
    pub(crate) fn of(device: tch::Device) -> Self {
        // The numbers of c10::DeviceType, which never change: files hold them.
        let (kind, index) = match device {
            tch::Device::Cpu => (0, 0),
            // An index beyond any device's is no device.
            tch::Device::Cuda(index) => (1, i32::try_from(index).unwrap_or(-1)),
            tch::Device::Vulkan => (10, 0),
            tch::Device::Mps => (13, 0),
        };
        Self { kind, index }
    }
}

impl RawError {
    fn new() -> Self {
        Self { message: [0; 512] }
    }

    fn message(&self) -> String {
        let text = self.message.iter().take_while(|&&byte| byte != 0);
        let bytes: Vec<u8> = text.map(|byte| byte.to_ne_bytes()[0]).collect();
        // Cut in the middle of a character at worst.
        String::from_utf8_lossy(&bytes).into_owned()
    }
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

pub(crate) fn device_stats(Place { kind, index }: Place) -> Result<DeviceStats, Error> {
    let mut stats = DeviceStats::default();
    checked(|error| toma_device_stats_get(kind, index, &mut stats, error))?;
    Ok(stats)
}

/// Free and total bytes, as the driver says.
pub(crate) fn device_memory(Place { kind, index }: Place) -> Result<(u64, u64), Error> {
    let (mut free, mut total) = (0, 0);
    checked(|error| toma_device_memory(kind, index, &mut free, &mut total, error))?;
    Ok((free, total))
}

pub(crate) fn release_device(Place { kind, index }: Place) -> Result<(), Error> {
    checked(|error| toma_device_release(kind, index, error))
}

pub(crate) fn reset_device_peak(Place { kind, index }: Place) -> Result<(), Error> {
    checked(|error| toma_device_reset_peak(kind, index, error))
}

pub(crate) fn install_cpu_allocator() {
    toma_cpu_install();
}

pub(crate) fn cpu_stats() -> CpuStats {
    let mut stats = CpuStats::default();
    toma_cpu_stats_get(&mut stats);
    stats
}

pub(crate) fn reset_cpu_peak() {
    toma_cpu_reset_peak();
}

pub(crate) fn set_cpu_budget(bytes: u64) {
    toma_cpu_set_budget(bytes);
}

/// Lets an allocation of this thread fail after `skip` more; returns how many were left before.
pub(crate) fn fail_cpu_allocation(skip: Option<u32>) -> Option<u32> {
    let left = toma_cpu_fail_after(skip.map_or(-1, i64::from));
    u32::try_from(left).ok()
}

pub(crate) fn rng_state(Place { kind, index }: Place) -> Result<Vec<u8>, Error> {
    let (mut state, mut size) = (vec![0; LARGEST_RNG_STATE], 0);
    checked(|error| {
        // SAFETY: `state` has as many bytes as is said, and all three live through the call.
        unsafe { toma_rng_get(kind, index, state.as_mut_ptr(), LARGEST_RNG_STATE, &raw mut size, error) }
    })?;
    if size > LARGEST_RNG_STATE {
        let message =
            format!("the state of the generator has {size} bytes, at most {LARGEST_RNG_STATE} are expected");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    state.truncate(size);
    Ok(state)
}

pub(crate) fn set_rng_state(Place { kind, index }: Place, state: &[u8]) -> Result<(), Error> {
    checked(|error| {
        // SAFETY: `state` has as many bytes as is said, and both live through the call.
        unsafe { toma_rng_set(kind, index, state.as_ptr(), state.len(), error) }
    })
}
