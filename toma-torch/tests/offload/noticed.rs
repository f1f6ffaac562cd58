//! Steps of programs that do not say where they begin.

use toma_torch::cpu;
use toma_torch::offload::{Flow, Report};

use crate::kit::{Rule, alone, bits, budget_of, entered};
use crate::nets::{NETS, Net};

const STEPS: usize = 8;

/// Bytes that each step moves in half of the memory, and its loss.
fn moved(net: fn() -> Net, rule: Rule, told: bool) -> (Vec<u64>, Vec<Vec<u32>>) {
    let bytes = budget_of(net, 50);
    let (manager, _entered) = entered(cpu::allocated_bytes() + bytes, Flow::default());
    let net = net();
    let mut optimizer = rule.build(&net.variables);
    tch::manual_seed(3);
    let bytes_of = |report: Report| report.bytes_in + report.bytes_out;
    let mut train = || {
        let loss = net.loss();
        optimizer.backward_step(&loss);
        bits(&loss)
    };
    let step = |_| {
        let before = bytes_of(manager.report());
        let loss = if told { manager.step(&mut train) } else { train() };
        (bytes_of(manager.report()) - before, loss)
    };
    let moved = (0..STEPS).map(step).unzip();
    let operators = manager.plan().step().map(|step| step.operators.len());
    println!("{} {rule:?} told: {told}, a step of {operators:?}: {:.1?}", net.name, mebibytes(&moved));
    moved
}

#[expect(clippy::cast_precision_loss, reason = "it is printed")]
fn mebibytes((moved, _): &(Vec<u64>, Vec<Vec<u32>>)) -> Vec<f64> {
    moved.iter().map(|bytes| *bytes as f64 / f64::from(1 << 20)).collect()
}

#[test]
fn a_step_that_is_noticed_moves_what_one_moves_that_is_told() {
    let _alone = alone();
    for at in [0, 1, 2] {
        for rule in [Rule::Plain, Rule::Sgd] {
            let (told, expected) = moved(NETS[at], rule, true);
            let (noticed, losses) = moved(NETS[at], rule, false);
            assert_eq!(losses, expected);
            drop((told, noticed));
        }
    }
}
