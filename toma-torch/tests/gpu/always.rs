//! What can be checked with or without a GPU.

use std::cell::RefCell;
use std::io;

use tch::{Kind, Tensor};
use toma::cache::NoCache;
use toma::cuda;
use toma::execute;
use toma_torch::cpu::Budget;
use toma_torch::{Device, ErrorKind};

use crate::table::{Check, Needs};

pub(crate) const CHECKS: &[Check] = &[
    Check { name: "cpu: a budget shrinks to what fits", needs: Needs::Nothing, run: budget },
    Check { name: "libtorch: a device that is not there is named", needs: Needs::Nothing, run: no_device },
    Check { name: "cudarc: a device that is not there is named", needs: Needs::Nothing, run: no_index },
];

fn budget() -> String {
    let sizes = RefCell::new(Vec::new());
    let _budget = Budget::beyond_allocated(20 << 12);
    let done = execute::with::<NoCache>().batch(64, |rows: usize| {
        sizes.borrow_mut().push(rows);
        Tensor::f_zeros([i64::try_from(rows).unwrap(), 1024], (Kind::Float, tch::Device::Cpu))
    });
    assert_eq!(done.unwrap().size(), [16, 1024]);
    assert_eq!(*sizes.borrow(), [64, 32, 16]);
    format!("sizes {:?}", sizes.take())
}

fn no_device() -> String {
    let error = Device::new(tch::Device::Cuda(9999)).stats().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoDevice);
    error.to_string()
}

fn no_index() -> String {
    let error = cuda::Device::new(9999).unwrap_err();
    assert!(matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::NotFound), "{error}");
    error.to_string()
}
