//! Devices of the driver as memory sources.
//!
//! # Why
//!
//! cudarc records an error that it meets while dropping values, and a retry would return it. So the error is taken
//! from the context before the retry. A poisoned context keeps its error.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaContext, DriverError};
use toma_core::classify::Class;
use toma_core::memory::{MemorySource, Reading, Usage};

use crate::class::class_of;
use crate::driver;

/// A device of the CUDA driver as a memory source.
///
/// Free bytes are those that an allocation of cudarc could get: the driver's free bytes, and the bytes that the
/// device's memory pool holds back without using them. Pass the device to a loop as the option `device`: sizes are
/// then remembered by this device's free memory. Before a retry, the engine waits for the work in flight, empties
/// the pool, and clears the context of errors from dropping the failed attempt's values (see
/// [`take_drop_error`](Self::take_drop_error)).
///
/// Its [name](MemorySource::name) is `cuda:N`, as in other libraries for the same device: sources of one name count
/// as one memory. Clones are one device.
///
/// A reading asks the driver, which takes microseconds; where the engine must be fast, it uses a reading that is at
/// most 100 ms old, which costs tens of nanoseconds.
///
/// ```
/// # mod toma { pub use {toma_core::*, toma_cuda as cuda}; }
/// use std::io;
/// use toma::{NoCache, cuda::Device, execute};
///
/// match Device::new(0) {
///     Ok(device) => {
///         let mut done = 0;
///         execute::with::<NoCache>().device(&device).range(0..100, 32, |start, end| done += end - start);
///         assert_eq!(done, 100);
///     }
///     // No driver, or none that sees a device.
///     Err(error) => assert!([io::ErrorKind::Unsupported, io::ErrorKind::NotFound].contains(&error.kind())),
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Device(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    context: Arc<CudaContext>,
    name: String,
    drop_error: Mutex<Option<DriverError>>,
}

impl Device {
    /// The device of this index, with its primary context.
    ///
    /// If the program has no context on it yet, making one takes some hundred MB of the device. As always with
    /// cudarc, the context becomes the current one of this thread. CUDA also reserves address ranges of many GiB
    /// when it starts, and fails to start under a small limit: make the device before
    /// [`set_cpu_memory_limit`](toma_core::memory::set_cpu_memory_limit).
    ///
    /// # Errors
    /// Of kind [`Unsupported`](io::ErrorKind::Unsupported) if there is no driver, of kind
    /// [`NotFound`](io::ErrorKind::NotFound) if the driver sees no such device; otherwise with the [`DriverError`]
    /// as its source, by which it is [classified](toma_core::classify).
    pub fn new(index: usize) -> io::Result<Self> {
        let name = name(index);
        if !driver::is_present() {
            let message = format!("{name}: no CUDA driver on this machine");
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        let count = CudaContext::device_count().map_err(|error| failed(&name, "count devices", error))?;
        if usize::try_from(count).is_ok_and(|count| index >= count) {
            let message = format!("{name}: no such device; the driver sees {count}");
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        }
        let context = CudaContext::new(index).map_err(|error| failed(&name, "make a context", error))?;
        Ok(Self::of(&context))
    }

    /// The device of `context`; for a slice, pass `slice.context()`.
    pub fn of(context: &Arc<CudaContext>) -> Self {
        let (context, name) = (Arc::clone(context), name(context.ordinal()));
        Self(Arc::new(Inner { context, name, drop_error: Mutex::new(None) }))
    }

    /// Returns the context, which makes streams, and through them slices.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.0.context
    }

    /// Returns the first error that cudarc met while it dropped values of failed attempts, and forgets it.
    ///
    /// A destructor returns nothing, so cudarc keeps its error and returns it from the next call in the context.
    /// After a failed attempt that would be the retry, which has not failed. So the error is taken from the context
    /// before a retry and kept here. One that leaves the context unusable stays in the context and ends the loop.
    pub fn take_drop_error(&self) -> Option<DriverError> {
        self.0.drop_error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn settle(&self, result: Result<(), DriverError>) {
        let Err(error) = result else { return };
        if class_of(error) == Class::Poisoned {
            self.0.context.record_err::<()>(Err(error));
        } else {
            self.0.drop_error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }
}

impl MemorySource for Device {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn read(&self) -> io::Result<Reading> {
        driver::memory(&self.0.context).map_err(|error| failed(&self.0.name, "read its memory", error))
    }

    /// Empties the device's memory pool, after all work in flight is done.
    fn release_cached_memory(&self) {
        self.settle(self.0.context.check_err());
        self.settle(driver::release(&self.0.context));
    }

    /// Returns the bytes that slices hold of the device's memory pool; `None` for devices that have no pools.
    fn usage(&self) -> Option<Usage> {
        driver::usage(&self.0.context).ok().flatten()
    }

    /// If the reset fails, a size comes out smaller than it could be.
    fn reset_peak(&self) {
        let _ = driver::reset_peak(&self.0.context);
    }
}

fn name(index: usize) -> String {
    format!("cuda:{index}")
}

fn failed(name: &str, operation: &'static str, source: DriverError) -> io::Error {
    let kind = match source.0 {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => io::ErrorKind::OutOfMemory,
        CUresult::CUDA_ERROR_NO_DEVICE | CUresult::CUDA_ERROR_INVALID_DEVICE => io::ErrorKind::NotFound,
        // The stub library that toolkits have for linkers only.
        CUresult::CUDA_ERROR_STUB_LIBRARY => io::ErrorKind::Unsupported,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, DeviceError { name: name.to_owned(), operation, source })
}

/// A failed operation on a device.
#[derive(Debug)]
struct DeviceError {
    name: String,
    operation: &'static str,
    source: DriverError,
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: cannot {} ({:?})", self.name, self.operation, self.source.0)
    }
}

impl Error for DeviceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}
