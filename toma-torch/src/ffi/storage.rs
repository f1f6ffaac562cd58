//! Identity of storages.

use std::ffi::c_void;

use tch::Tensor;

unsafe extern "C" {
    // Takes a pointer to a tensor of libtorch.
    fn toma_storage_identity(tensor: *const c_void) -> *const c_void;
}

/// A number that all tensors in one storage have in common, and that no other living storage has; `None` for
/// tensors without one.
pub(crate) fn storage_identity(tensor: &Tensor) -> Option<usize> {
    // SAFETY: it is a tensor of libtorch, and lives through the call.
    let identity = unsafe { toma_storage_identity(tensor.as_ptr().cast()) };
    (!identity.is_null()).then(|| identity.addr())
}
