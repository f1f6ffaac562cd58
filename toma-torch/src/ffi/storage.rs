//! Identity and location of storages.

use std::ffi::c_void;

use tch::Tensor;

use super::{DeviceId, RawError, checked};
use crate::error::Error;

/// `toma_tensor` of the shim.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TensorMemory {
    pub(crate) device: DeviceId,
    /// The number of a `c10::Layout`.
    pub(crate) layout: i32,
    /// Identity of the storage; 0 if there is none, and then all fields below are 0 as well.
    pub(crate) storage: u64,
    /// Address of the storage's memory; 0 if it has none.
    pub(crate) data: u64,
    pub(crate) bytes: u64,
    pub(crate) element_bytes: u64,
    /// Offset of the first element, in elements.
    pub(crate) offset: u64,
}

unsafe extern "C" {
    // They take a pointer to a tensor of libtorch.
    fn toma_storage_identity(tensor: *const c_void) -> *const c_void;
    fn toma_storage_addresses(tensor: *const c_void, of_gradient: bool, out: &mut [u64; 2]);
    fn toma_tensor_memory(tensor: *const c_void, out: &mut TensorMemory, error: &mut RawError) -> i32;
}

/// Returns a number that all tensors in one storage share, and no other live storage has; `None` for tensors without a
/// storage.
pub(crate) fn storage_identity(tensor: &Tensor) -> Option<usize> {
    // SAFETY: the pointer is to a tensor of libtorch, which lives through the call.
    let identity = unsafe { toma_storage_identity(tensor.as_ptr().cast()) };
    (!identity.is_null()).then(|| identity.addr())
}

/// Returns the address of a tensor's memory: for a sparse tensor those of its indices and of its values.
pub(crate) fn addresses(tensor: &Tensor) -> impl Iterator<Item = u64> + use<> {
    addresses_of(tensor, false)
}

/// Returns the addresses of the memory of a tensor's gradient, as `addresses` does.
pub(crate) fn gradient_addresses(tensor: &Tensor) -> impl Iterator<Item = u64> + use<> {
    addresses_of(tensor, true)
}

fn addresses_of(tensor: &Tensor, of_gradient: bool) -> impl Iterator<Item = u64> + use<> {
    let mut addresses = [0; 2];
    // SAFETY: the pointer is to a tensor of libtorch, which lives through the call, as both numbers do.
    unsafe { toma_storage_addresses(tensor.as_ptr().cast(), of_gradient, &mut addresses) };
    addresses.into_iter().filter(|address| *address != 0)
}

/// Returns the location of a tensor. The text of an error continues after the tensor's name.
pub(crate) fn tensor_memory(tensor: &Tensor) -> Result<TensorMemory, Error> {
    let mut memory = TensorMemory::default();
    // SAFETY: the pointer is to a tensor of libtorch, which lives through the call, as `memory` does.
    checked(|error| unsafe { toma_tensor_memory(tensor.as_ptr().cast(), &mut memory, error) })?;
    Ok(memory)
}
