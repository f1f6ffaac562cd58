use toma_core::predict::is_dry;

use crate::error::Error;
use crate::ffi::{self, DeviceId};

/// Saved state of a device's random number generator.
///
/// A failed attempt has consumed random numbers, for dropout masks or samples. If the state from
/// before the attempt is restored, the retry draws the same ones. Recurrent layers with dropout on a
/// GPU draw others in the retry, because cuDNN has a random state of its own.
///
/// ```
/// use tch::{Device, Kind, Tensor};
/// use toma_torch::RngState;
///
/// let state = RngState::of(Device::Cpu)?;
/// let first = Tensor::rand([4], (Kind::Float, Device::Cpu));
/// state.restore()?;
/// assert_eq!(Tensor::rand([4], (Kind::Float, Device::Cpu)), first);
/// # Ok::<(), toma_torch::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RngState {
    device: tch::Device,
    bytes: Vec<u8>,
}

impl RngState {
    /// Saves the current state of `device`: about 5 kB for the CPU, a few bytes for a GPU.
    ///
    /// # Errors
    /// If the device does not exist.
    pub fn of(device: tch::Device) -> Result<Self, Error> {
        Ok(Self { device, bytes: ffi::rng_state(DeviceId::of(device))? })
    }

    /// Replaces the saved state by the current one.
    pub(crate) fn refresh(&mut self) -> Result<(), Error> {
        *self = Self::of(self.device)?;
        Ok(())
    }

    /// Restores the state on its device. Needs no memory under a budget. Does nothing in a [dry
    /// run](crate::dry_run()), which draws no numbers.
    ///
    /// # Errors
    /// If the device is gone, or libtorch refuses the state.
    pub fn restore(&self) -> Result<(), Error> {
        if is_dry() { Ok(()) } else { ffi::set_rng_state(DeviceId::of(self.device), &self.bytes) }
    }
}
