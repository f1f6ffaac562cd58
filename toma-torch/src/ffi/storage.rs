//! Identity of storages, and where they are.

use std::ffi::c_void;

use tch::Tensor;

use super::{DeviceId, RawError, checked};
use crate::error::Error;

/// `toma_tensor` of the shim.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) device: DeviceId,
    /// The number of a `c10::Layout`.
    pub(crate) layout: i32,
    /// The identity of its storage; 0 for none, as all else is then.
    pub(crate) storage: u64,
    /// Where the memory of its storage begins; 0 where it has none.
    pub(crate) data: u64,
    pub(crate) bytes: u64,
    pub(crate) element_bytes: u64,
    /// Of its first element, in elements.
    pub(crate) offset: u64,
}

unsafe extern "C" {
    // They take a pointer to a tensor of libtorch.
    fn toma_storage_identity(tensor: *const c_void) -> *const c_void;
    fn toma_storage_addresses(tensor: *const c_void, of_gradient: bool, out: &mut [u64; 2]);
    fn toma_tensor_memory(tensor: *const c_void, out: &mut Memory, error: &mut RawError) -> i32;
}

/// A number that all tensors in one storage have in common, and that no other living storage has; `None` for
/// tensors without one.
pub(crate) fn storage_identity(tensor: &Tensor) -> Option<usize> {
    // SAFETY: it is a tensor of libtorch, and lives through the call.
    let identity = unsafe { toma_storage_identity(tensor.as_ptr().cast()) };
    (!identity.is_null()).then(|| identity.addr())
}

/// Where the memory of a tensor begins: of a sparse one that of its indices, then that of its values.
pub(crate) fn addresses(tensor: &Tensor) -> impl Iterator<Item = u64> + use<> {
    addresses_of(tensor, false)
}

/// The same of its gradient.
pub(crate) fn gradient_addresses(tensor: &Tensor) -> impl Iterator<Item = u64> + use<> {
    addresses_of(tensor, true)
}

fn addresses_of(tensor: &Tensor, of_gradient: bool) -> impl Iterator<Item = u64> + use<> {
    let mut addresses = [0; 2];
    // SAFETY: it is a tensor of libtorch, which lives through the call as both numbers do.
    unsafe { toma_storage_addresses(tensor.as_ptr().cast(), of_gradient, &mut addresses) };
    addresses.into_iter().filter(|address| *address != 0)
}

/// Where a tensor is. Errors are words that follow its name.
pub(crate) fn tensor_memory(tensor: &Tensor) -> Result<Memory, Error> {
    let mut memory = Memory {
        device: DeviceId::of(tch::Device::Cpu),
        layout: 0,
        storage: 0,
        data: 0,
        bytes: 0,
        element_bytes: 0,
        offset: 0,
    };
    // SAFETY: it is a tensor of libtorch, and lives through the call, as what is written to does.
    checked(|error| unsafe { toma_tensor_memory(tensor.as_ptr().cast(), &mut memory, error) })?;
    Ok(memory)
}
