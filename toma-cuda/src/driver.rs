//! The edge to the driver: safe functions around those that cudarc offers only as `unsafe`.
//!
//! None of them takes the errors that cudarc's destructors have recorded, because those are for the program's own
//! next call.

#![expect(unsafe_code, reason = "the edge to the driver: cudarc has no safe functions for memory pools")]

use std::ptr;
use std::sync::OnceLock;

use cudarc::driver::result::{self, ctx, mem_pool};
use cudarc::driver::sys::{CUmemPool_attribute, CUmemoryPool};
use cudarc::driver::{CudaContext, DriverError};
use toma_core::classify::{self, Failure};
use toma_core::memory::{Reading, Usage};

use crate::class::class_of;

ctor::declarative::ctor! {
    /// Runs before `main`, so that a program need not register the driver's errors.
    #[ctor(unsafe)]
    fn before_main() {
        classify::add_failure::<DriverError>(|error| failure_of(*error));
    }
}

/// Returns the failure of `error`, with the driver's message.
fn failure_of(error: DriverError) -> Failure {
    // `Display` asks the driver for the message, and panics if there is no driver.
    let words = if is_present() { error.to_string() } else { format!("{:?}", error.0) };
    Failure::new(class_of(error), words)
}

/// True if there is a driver. Without one, every other function of cudarc panics.
pub(crate) fn is_present() -> bool {
    // cudarc's function of this name takes precedence over the one below, and exists if cudarc loads the driver at
    // run time.
    #[allow(clippy::wildcard_imports, unused_imports, reason = "by its name it could not be missing")]
    use cudarc::driver::sys::*;
    static PRESENT: OnceLock<bool> = OnceLock::new();
    // SAFETY: loads the driver's library and unloads it again; none of its functions is called.
    *PRESENT.get_or_init(|| unsafe { is_culib_present() })
}

/// Replaces cudarc's function in a program that is linked with the driver, because another crate has turned on
/// cudarc's `dynamic-linking`: such a program does not start without a driver.
#[allow(dead_code, reason = "of the same name as cudarc's own")]
unsafe fn is_culib_present() -> bool {
    true
}

/// Reads free and total bytes; free bytes include those that the memory pool holds back without using them.
pub(crate) fn memory(context: &CudaContext) -> Result<Reading, DriverError> {
    within(context, || {
        let (free, total) = result::mem_get_info()?;
        let (free, total) = (free as u64, total as u64);
        let unused = pool(context)?.map_or(Ok(0), |pool| {
            let reserved = pool_bytes(pool, CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
            Ok(reserved.saturating_sub(used_bytes(pool)?))
        })?;
        Ok(Reading::new(free.saturating_add(unused).min(total), total))
    })
}

/// Waits for all work, so that its memory can be freed, and empties the memory pool.
pub(crate) fn release(context: &CudaContext) -> Result<(), DriverError> {
    within(context, || {
        ctx::synchronize()?;
        pool(context)?.map_or(Ok(()), |pool| {
            // SAFETY: the pool of a device lives as long as the device.
            unsafe { mem_pool::trim_to(pool, 0) }
        })
    })
}

/// Reads the bytes that slices hold of the memory pool; `None` if slices come from no pool and are not counted.
pub(crate) fn usage(context: &CudaContext) -> Result<Option<Usage>, DriverError> {
    within(context, || {
        let Some(pool) = pool(context)? else { return Ok(None) };
        let used = used_bytes(pool)?;
        let peak = pool_bytes(pool, CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH)?;
        // After a reset the peak is 0 until the next allocation.
        Ok(Some(Usage::new(used, peak.max(used))))
    })
}

pub(crate) fn reset_peak(context: &CudaContext) -> Result<(), DriverError> {
    within(context, || {
        let Some(pool) = pool(context)? else { return Ok(()) };
        let (peak, mut nothing) = (CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0_u64);
        // SAFETY: the pool is a living device's, and the attribute is a `u64` that may be set to 0.
        unsafe { mem_pool::set_attribute(pool, peak, (&raw mut nothing).cast()) }
    })
}

/// Returns the pool that slices of this device come from, which is its default pool unless the program has set
/// another; `None` if slices come from no pool.
fn pool(context: &CudaContext) -> Result<Option<CUmemoryPool>, DriverError> {
    if !context.has_async_alloc() {
        return Ok(None);
    }
    // SAFETY: the device is that of a living context.
    unsafe { result::device::get_mem_pool(context.cu_device()) }.map(Some)
}

fn used_bytes(pool: CUmemoryPool) -> Result<u64, DriverError> {
    pool_bytes(pool, CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
}

fn pool_bytes(pool: CUmemoryPool, attribute: CUmemPool_attribute) -> Result<u64, DriverError> {
    let mut bytes = 0_u64;
    // SAFETY: the pool is a living device's, and all attributes that are asked for are a `u64`.
    unsafe { mem_pool::get_attribute(pool, attribute, (&raw mut bytes).cast()) }?;
    Ok(bytes)
}

/// Runs `work` with `context` as this thread's current one, and then restores the previous one: other libraries
/// choose their device by the current context.
fn within<T>(context: &CudaContext, work: impl FnOnce() -> Result<T, DriverError>) -> Result<T, DriverError> {
    let before = ctx::get_current()?.unwrap_or(ptr::null_mut());
    if before == context.cu_ctx() {
        return work();
    }
    // SAFETY: `context` keeps the CUDA context alive, beyond the time in which it is current.
    unsafe { ctx::set_current(context.cu_ctx()) }?;
    let done = work();
    // SAFETY: `before` was current a moment ago; null, for none, is allowed. If its owner has destroyed it
    // meanwhile, the driver returns an error, and nothing is lost by that.
    let _ = unsafe { ctx::set_current(before) };
    done
}
