//! The state of random numbers, as bytes.

use std::ptr;

use tch::Tensor;
use torch_sys::C_tensor;

use super::{DeviceId, RawError, checked};
use crate::error::Error;

unsafe extern "C" {
    // Hands out a tensor of the caller's own.
    safe fn toma_rng_get(id: DeviceId, out: &mut *mut C_tensor, error: &mut RawError) -> i32;
    // Reads as many bytes as it is told.
    fn toma_rng_set(id: DeviceId, state: *const u8, size: usize, error: &mut RawError) -> i32;
}

pub(crate) fn rng_state(id: DeviceId) -> Result<Vec<u8>, Error> {
    let mut state = ptr::null_mut();
    checked(|error| toma_rng_get(id, &mut state, error))?;
    // SAFETY: it is a tensor of libtorch, which is dropped here and nowhere else.
    let state = unsafe { Tensor::from_ptr(state) };
    Ok(Vec::try_from(state)?)
}

pub(crate) fn set_rng_state(id: DeviceId, state: &[u8]) -> Result<(), Error> {
    // SAFETY: `state` has as many bytes as is said, and lives through the call.
    checked(|error| unsafe { toma_rng_set(id, state.as_ptr(), state.len(), error) })
}
