//! Gradients of tensors, as handles.

use std::ffi::c_void;
use std::ptr;

use tch::{TchError, Tensor};

use super::{RawError, checked};

unsafe extern "C" {
    // These take pointers to tensors of libtorch.
    fn toma_gradient_set(variable: *const c_void, gradient: *const c_void, error: &mut RawError) -> i32;
    fn toma_gradient_print(variable: *const c_void, out: &mut [u64; 2]);
    fn toma_tensor_identity(tensor: *const c_void) -> *const c_void;
    fn toma_tensor_is_sole(tensor: *const c_void, out: &mut bool, error: &mut RawError) -> i32;
}

/// Makes this very tensor the gradient of a variable; `None` removes the gradient.
pub(crate) fn set_gradient(variable: &Tensor, gradient: Option<&Tensor>) -> Result<(), TchError> {
    let gradient = gradient.map_or(ptr::null(), pointer);
    // SAFETY: both are tensors of libtorch or null, and live through the call.
    checked(|error| unsafe { toma_gradient_set(pointer(variable), gradient, error) })?;
    Ok(())
}

/// Returns the address of a variable's gradient and the number of writes to it; zeros if it has none.
pub(crate) fn gradient_print(variable: &Tensor) -> [u64; 2] {
    let mut print = [0; 2];
    // SAFETY: the pointer is to a tensor of libtorch, which lives through the call.
    unsafe { toma_gradient_print(pointer(variable), &mut print) };
    print
}

/// Returns a number that all handles to one tensor share, and no other live tensor has.
pub(crate) fn identity(tensor: &Tensor) -> usize {
    // SAFETY: the pointer is to a tensor of libtorch, which lives through the call.
    unsafe { toma_tensor_identity(pointer(tensor)) }.addr()
}

/// Returns true if this is the only handle to the tensor and its memory, and no elements of it overlap.
pub(crate) fn is_sole(tensor: &Tensor) -> Result<bool, TchError> {
    let mut sole = false;
    // SAFETY: the pointer is to a tensor of libtorch, which lives through the call.
    checked(|error| unsafe { toma_tensor_is_sole(pointer(tensor), &mut sole, error) })?;
    Ok(sole)
}

fn pointer(tensor: &Tensor) -> *const c_void {
    tensor.as_ptr().cast()
}
