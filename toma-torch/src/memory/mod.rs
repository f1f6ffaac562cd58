//! Memory of libtorch's devices: free bytes, bytes held by tensors, and a budget for CPU tensors.

pub mod cpu;
mod device;
mod held;
mod level;

pub use device::Device;
pub(crate) use held::{AllocatorLimit, relieve};
