//! Memory of libtorch's devices: what is free, what tensors hold, and a budget for those of the CPU.

pub mod cpu;
mod device;
mod held;
mod level;

pub use device::Device;
pub(crate) use held::{Held, relieve};
