//! Modules of `TorchScript` in regions. Compiled parts of their graphs save tensors between operators, not in one.

use tch::{CModule, Kind, Tensor};
use toma_torch::checkpoint::{self, cut};

use crate::kit::{alone, bytes, numbers};

fn traced() -> CModule {
    let mut net = |inputs: &[Tensor]| vec![(inputs[0].tanh() * inputs[0].sigmoid()).exp().tanh()];
    CModule::create_by_tracing("net", "forward", &[numbers(1, &[4, 4])], &mut net).unwrap()
}

/// Runs a body three times, because the first calls of a traced module decide which parts are compiled.
fn gradients(module: &CModule, region: &dyn Fn(&dyn Fn() -> Tensor) -> Tensor) -> Vec<Vec<u8>> {
    let w = numbers(2, &[4, 4]).set_requires_grad(true);
    let run = |_| {
        let output = region(&|| {
            let h = module.forward_ts(&[w.matmul(&w)]).unwrap();
            cut();
            module.forward_ts(&[h.sigmoid().matmul(&w)]).unwrap().tanh()
        });
        output.sum(Kind::Float).backward();
        bytes(&w.grad())
    };
    (0..4).map(run).collect()
}

#[test]
fn a_traced_module_is_repeated_in_each_of_its_calls() {
    let _alone = alone();
    let plain = gradients(&traced(), &|body| body());
    let form = checkpoint::with().name("traced").verify(true);
    assert!(gradients(&traced(), &|body| form.region(body)) == plain, "first runs");
    // The next module has no gradients yet.
    let least = form.least_budget().expect("backward has run");
    assert!(gradients(&traced(), &|body| form.budget(least).region(body)) == plain, "planned");
}

#[test]
fn a_compiled_module_may_come_first_in_a_region() {
    let _alone = alone();
    // A module for each, because compiled parts may round differently from the first calls.
    let (module, plain) = (traced(), traced());
    let w = numbers(2, &[4, 4]).set_requires_grad(true);
    let gradient =
        |output: Tensor| Tensor::run_backward(&[output.sum(Kind::Float)], &[&w], false, false).remove(0);
    for _ in 0..4 {
        let of_region = gradient(checkpoint::region(|| module.forward_ts(&[&w]).unwrap()));
        assert_eq!(of_region, gradient(plain.forward_ts(&[&w]).unwrap()));
    }
}
