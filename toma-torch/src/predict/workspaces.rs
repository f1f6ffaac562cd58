//! Workspaces of CUDA's libraries, which a thread's first product of matrices allocates and keeps.
//!
//! # Why
//!
//! No dry run allocates them: 8 MiB for each thread on an A100, 32 MiB on an H100. A product of small matrices does, so
//! that they are allocated already when the free bytes are read. A step that multiplies would allocate them anyway.

use std::collections::BTreeSet;

use tch::{Kind, TchError, Tensor};
use toma_trace::operators::{COPIES_OPERANDS, named};
use toma_trace::{OperatorId, Trace};

/// Allocates the workspaces of the threads on which the step multiplies: this one, and that of backward.
pub(super) fn take(device: tch::Device, step: &Trace) {
    let threads = multiplying(step);
    if !matches!(device, tch::Device::Cuda(_)) || threads == 0 {
        return;
    }
    let _in_no_line = toma_trace::counting::pause();
    // If there is no memory for them, the step itself fails.
    let _ = multiply(device, threads > 1);
}

/// Number of threads that have products.
fn multiplying(step: &Trace) -> usize {
    let is_product = |id: OperatorId| named(&step[id].name).has(COPIES_OPERANDS);
    let of_products = step.blocks().filter(|(_, block)| block.operator.is_some_and(is_product));
    of_products.filter_map(|(_, block)| Some(block.birth?.thread)).collect::<BTreeSet<_>>().len()
}

fn multiply(device: tch::Device, backward: bool) -> Result<(), TchError> {
    let ones = |sizes: &[i64]| Tensor::f_ones(sizes, (Kind::Float, device));
    let weight = ones(&[16, 16])?.f_set_requires_grad(backward)?;
    let product = ones(&[16, 16])?.f_linear(&weight, Some(&ones(&[16])?))?;
    if product.requires_grad() { product.f_sum(Kind::Float)?.f_backward() } else { Ok(()) }
}
