//! `TOMA_DISABLE=1`, in a process of its own: switches are read once.

use tch::{Kind, Tensor};
use toma_torch::checkpoint;

use crate::kit::alone;
use crate::{child, ground};

#[test]
fn regions_run_plainly() {
    let _alone = alone();
    if let Some(ended) = child::run("disabled::regions_run_plainly", &[("TOMA_DISABLE", "1")]) {
        ended.passed();
        return;
    }
    let x = Tensor::ones([4], ground::floats()).set_requires_grad(true);
    checkpoint::region(|| x.tanh()).sum(Kind::Float).backward();
    assert!(checkpoint::last().is_none() && x.grad().defined());
}
