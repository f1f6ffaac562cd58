//! Identity of storages.

use std::ffi::c_void;

use tch::Tensor;

unsafe extern "C" {
    // They take a pointer to a tensor of libtorch.
    fn toma_storage_identity(tensor: *const c_void) -> *const c_void;
    fn toma_storage_addresses(tensor: *const c_void, of_gradient: bool, out: &mut [u64; 2]);
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
