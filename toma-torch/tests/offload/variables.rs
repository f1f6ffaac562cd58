//! Variables that are away: optimizers tell them apart, and tch saves and loads them.

use tch::nn::{self, Module as _, OptimizerConfig as _};
use tch::{Kind, Tensor};
use toma_torch::offload::Lru;
use toma_torch::{backward_step, cpu};

use crate::kit::{alone, bits, entered};

const CPU: tch::Device = tch::Device::Cpu;

/// Weights and losses of four steps of a model whose table comes first and is the largest.
fn trained(before_step: impl Fn(&Tensor)) -> (Vec<u64>, Vec<u32>) {
    tch::manual_seed(5);
    let variables = nn::VarStore::new(CPU);
    let root = variables.root();
    let table = nn::embedding(&root / "table", 8192, 256, Default::default());
    let head = nn::linear(&root / "head", 256, 512, Default::default());
    let mut optimizer = nn::sgd(0.9, 0.0, 0.0, false).build(&variables, 1e-2).unwrap();
    let words = Tensor::arange(64, (Kind::Int64, CPU));
    let losses = (0..4).map(|_| {
        before_step(&table.ws);
        let loss = backward_step(&mut optimizer, &words, |words| {
            head.forward(&table.forward(&words)).square().mean(Kind::Float)
        });
        loss.double_value(&[]).to_bits()
    });
    (losses.collect(), bits(&table.ws))
}

#[test]
fn a_step_of_variables_that_are_away_is_taken() {
    let _alone = alone();
    let expected = trained(|_| {});
    let (manager, _entered) = entered(cpu::allocated_bytes() + (24 << 20), Lru);
    assert_eq!(trained(|table| manager.adopt(table).offload().unwrap()), expected);
    assert!(manager.report().offloads > 0, "{}", manager.report());
}
