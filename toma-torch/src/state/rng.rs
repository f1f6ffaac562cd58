use toma_core::predict::is_dry;

use crate::error::Error;
use crate::ffi::{self, DeviceId};

/// The state of a device's random numbers, to be put back.
///
/// A failed attempt has used random numbers up, for dropout masks or samples; with the state from
/// before it, the retry draws the same ones.
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
    /// The state of `device` now: about 5 kB for the CPU, a few bytes for a GPU.
    ///
    /// # Errors
    /// When there is no such device.
    pub fn of(device: tch::Device) -> Result<Self, Error> {
        Ok(Self { device, bytes: ffi::rng_state(DeviceId::of(device))? })
    }

    /// Takes the state of now in place of the one from before.
    pub(crate) fn refresh(&mut self) -> Result<(), Error> {
        *self = Self::of(self.device)?;
        Ok(())
    }

    /// Makes it the state of its device again. Needs no memory under a budget. In a [dry run](crate::dry_run()), which
    /// draws no numbers, it does nothing.
    ///
    /// # Errors
    /// When the device is gone, or libtorch refuses the state.
    pub fn restore(&self) -> Result<(), Error> {
        if is_dry() { Ok(()) } else { ffi::set_rng_state(DeviceId::of(self.device), &self.bytes) }
    }
}
