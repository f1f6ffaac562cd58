//! `toma` for cudarc: the memory of devices, errors by their codes, and slices in chunks.
//!
//! | | |
//! |---|---|
//! | [`Device`] | free and total bytes of a device, and the release of unused bytes of its memory pool |
//! | [`Chunked`](toma_core::chunk::Chunked) | `&CudaSlice`, `&mut CudaSlice`, `CudaView` and `CudaViewMut`, also in tuples with other data |
//!
//! A program that is linked with this package need not register its errors: they are registered before `main`. Every
//! [`DriverError`](cudarc::driver::DriverError) is classified by its code: as out of memory, as poisoned if it leaves
//! the context unusable (illegal access, device assert, launch failure and the like), or as other.
//! [`classify_error`](toma_core::classify::classify_error) returns the class.
//!
//! The driver is loaded on first use. A program with this feature starts without a driver, and then [`Device::new`]
//! returns an error.
//!
//! ```
//! # mod toma { pub use {toma_core::*, toma_cuda as cuda}; }
//! use cudarc::driver::{CudaSlice, DriverError};
//! use toma::{GlobalCache, cuda::Device, execute};
//!
//! /// Brings the values to the host, as many at a time as there is memory for their squares.
//! fn squares(device: &Device, data: &CudaSlice<f32>) -> Result<Vec<f32>, DriverError> {
//!     let mut squares = Vec::new();
//!     let step = data.len().max(1);
//!     execute::with::<GlobalCache>().device(device).chunked(
//!         data,
//!         step,
//!         |chunk, _, _| -> Result<(), DriverError> {
//!             let copy = data.stream().clone_dtod(&chunk)?; // no memory? once more with half the chunk
//!             squares.extend(data.stream().clone_dtoh(&copy)?.into_iter().map(|x| x * x));
//!             Ok(())
//!         },
//!     )?;
//!     Ok(squares)
//! }
//!
//! match Device::new(0) {
//!     Ok(device) => {
//!         let data = device.context().default_stream().clone_htod(&[3.0_f32; 100])?;
//!         assert_eq!(squares(&device, &data)?, [9.0; 100]);
//!     }
//!     Err(error) => println!("{error}"), // cuda:0: no CUDA driver on this machine
//! }
//! # Ok::<(), DriverError>(())
//! ```

mod class;
mod device;
mod driver;
mod slices;

pub use device::Device;
pub use slices::DeviceSlices;
