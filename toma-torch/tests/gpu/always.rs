//! Checks that run with or without a GPU.

use toma_torch::{Device, ErrorKind};

use crate::table::{Check, Needs};

pub(crate) const CHECKS: &[Check] =
    &[Check { name: "libtorch: a device that is not there is named", needs: Needs::Nothing, run: no_device }];

fn no_device() -> String {
    let error = Device::new(tch::Device::Cuda(9999)).stats().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoDevice);
    error.to_string()
}
