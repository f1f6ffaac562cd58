//! The state of random numbers, as bytes.

use super::{DeviceId, RawError, checked};
use crate::error::{Error, ErrorKind};

/// Bytes that any generator's state fits into; the CPU's has 5056.
const LARGEST_RNG_STATE: usize = 8192;

unsafe extern "C" {
    // These read or write as many bytes as they are told.
    fn toma_rng_get(
        kind: i32,
        index: i32,
        out: *mut u8,
        capacity: usize,
        size: *mut usize,
        error: *mut RawError,
    ) -> i32;
    fn toma_rng_set(kind: i32, index: i32, state: *const u8, size: usize, error: *mut RawError) -> i32;
}

pub(crate) fn rng_state(DeviceId { kind, index }: DeviceId) -> Result<Vec<u8>, Error> {
    let (mut state, mut size) = (vec![0; LARGEST_RNG_STATE], 0);
    checked(|error| {
        // SAFETY: `state` has as many bytes as is said, and all three live through the call.
        unsafe { toma_rng_get(kind, index, state.as_mut_ptr(), LARGEST_RNG_STATE, &raw mut size, error) }
    })?;
    if size > LARGEST_RNG_STATE {
        let message =
            format!("the state of the generator has {size} bytes, at most {LARGEST_RNG_STATE} are expected");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    state.truncate(size);
    Ok(state)
}

pub(crate) fn set_rng_state(DeviceId { kind, index }: DeviceId, state: &[u8]) -> Result<(), Error> {
    checked(|error| {
        // SAFETY: `state` has as many bytes as is said, and both live through the call.
        unsafe { toma_rng_set(kind, index, state.as_ptr(), state.len(), error) }
    })
}
