//! Figures of lines whose operators a checkpointed region recomputes in backward.

use crate::ground;
use tch::{Kind, Tensor};
use toma_torch::checkpoint;

use crate::{alone, figures, record};

#[toma::profile]
fn thirds(x: &Tensor) -> Tensor {
    let first = x.tanh();
    let second = first.sigmoid();
    second.exp()
}

#[test]
fn repeated_bytes_are_the_lines_that_recorded_them() {
    let _alone = alone();
    let x = Tensor::zeros([1000], ground::floats()).set_requires_grad(true);
    let plain = record(|| thirds(&x).sum(Kind::Float).backward());
    let repeated = record(|| checkpoint::region(|| thirds(&x)).sum(Kind::Float).backward());
    assert_eq!(checkpoint::last().unwrap().repeats(), [1]);
    for line in ["let first = x.tanh();", "let second = first.sigmoid();", "second.exp()"] {
        let [plain, repeated] = [&plain, &repeated].map(|recording| figures(recording, "thirds", line));
        assert_eq!(repeated.backward, plain.backward + 4000, "{line}");
    }
}
