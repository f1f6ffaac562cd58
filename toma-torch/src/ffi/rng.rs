//! State of the random number generators, as bytes.

use std::ptr;

use tch::Tensor;
use torch_sys::C_tensor;

use super::{DeviceId, RawError, checked};
use crate::error::Error;

unsafe extern "C" {
    // Hands out a tensor that the caller owns.
    safe fn toma_rng_get(id: DeviceId, out: &mut *mut C_tensor, error: &mut RawError) -> i32;
    // Reads `size` bytes.
    fn toma_rng_set(id: DeviceId, state: *const u8, size: usize, error: &mut RawError) -> i32;
}

pub(crate) fn rng_state(id: DeviceId) -> Result<Vec<u8>, Error> {
    let mut state = ptr::null_mut();
    checked(|error| toma_rng_get(id, &mut state, error))?;
    // SAFETY: the pointer is to a tensor of libtorch, which is dropped here and nowhere else.
    let state = unsafe { Tensor::from_ptr(state) };
    Ok(Vec::try_from(state)?)
}

pub(crate) fn set_rng_state(id: DeviceId, state: &[u8]) -> Result<(), Error> {
    // SAFETY: `state` has the size that is passed, and lives through the call.
    checked(|error| unsafe { toma_rng_set(id, state.as_ptr(), state.len(), error) })
}
