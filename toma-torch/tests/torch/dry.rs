//! A dry run says what a step does, and leaves everything as it was.

use tch::{Device, Kind, Tensor};
use toma_torch::{RngState, cpu, dry_run, dry_run_by_shapes, record};
use toma_trace::{Place, Trace};

use crate::nets::{self, Net, Road};
use crate::nine;
use crate::stage::{FLOATS, alone, panic_of, size};

const NETS: [fn() -> Net; 6] = [
    nets::perceptron,
    nets::convolution,
    nets::lstm,
    || nets::transformer(0.0),
    || nets::transformer(0.5),
    nets::residual,
];

/// Forward and backward by tch's own methods.
fn step(net: &Net, rows: usize) {
    net.loss(Road::Panics, &(0..rows)).unwrap().backward();
}

/// Each leaf with the bytes that live when it begins, beyond those before.
fn leaves(trace: &Trace) -> Vec<(String, u64)> {
    let live = trace.live(&Place::HOST);
    let leaf = |operator: &toma_trace::Operator| {
        (operator.name.clone(), live.at(operator.interval.begin).saturating_sub(live.before()))
    };
    trace.operators().map(|(_, operator)| leaf(operator)).collect()
}

/// All that a dry run must leave as it is.
fn state(net: &Net) -> (Vec<Tensor>, Vec<bool>, Vec<Tensor>, RngState, u64) {
    let gradients = net.gradients();
    let defined = gradients.iter().map(Tensor::defined).collect();
    let gradients = gradients.into_iter().filter(Tensor::defined).map(|gradient| gradient.copy()).collect();
    let variables = net.weights().into_iter().chain(net.buffers()).map(|tensor| tensor.detach().copy());
    (gradients, defined, variables.collect(), RngState::of(Device::Cpu).unwrap(), cpu::allocated_bytes())
}

#[test]
fn a_step_leaves_everything_as_it_was() {
    let _alone = alone();
    for net in NETS {
        let net = net();
        for with_gradients in [false, true] {
            if with_gradients {
                step(&net, 8);
            }
            let before = state(&net);
            let allocated = cpu::allocated_bytes();
            dry_run(|| step(&net, 8)).unwrap();
            assert_eq!(cpu::allocated_bytes(), allocated, "{}", net.name);
            let after = state(&net);
            assert_eq!(
                (&before.0, &before.1, &before.2, &before.3),
                (&after.0, &after.1, &after.2, &after.3),
                "{}",
                net.name
            );
        }
    }
}

#[test]
fn a_dry_step_has_the_leaves_and_the_bytes_of_a_real_one() {
    let _alone = alone();
    for net in NETS {
        let net = net();
        for rows in [4, 9] {
            let dry = dry_run(|| step(&net, rows)).unwrap();
            let real = record(|| step(&net, rows));
            assert_twins(net.name, &dry, &real);
        }
    }
    nine::each(|net| {
        for rows in [4, 9] {
            net.forget_gradients();
            let dry = dry_run(|| net.step(rows)).unwrap();
            assert_twins(net.name, &dry, &record(|| net.step(rows)));
            // The next piece adds to gradients.
            let dry = dry_run(|| net.step(rows)).unwrap();
            assert_twins(net.name, &dry, &record(|| net.step(rows)));
        }
    });
}

#[test]
fn rules_say_the_shapes_that_kernels_make() {
    let _alone = alone();
    nine::each(|net| {
        for rows in [1, 5, 8] {
            let asked = dry_run(|| net.step(rows)).unwrap();
            assert_twins(net.name, &dry_run_by_shapes(|| net.step(rows)).unwrap(), &asked);
        }
    });
}

fn assert_twins(name: &str, dry: &Trace, real: &Trace) {
    let (dry, real) = (leaves(dry), leaves(real));
    for (at, (dry, real)) in dry.iter().zip(&real).enumerate() {
        assert_eq!(dry, real, "{name}: leaf {at}");
    }
    assert_eq!(dry.len(), real.len(), "{name}");
}

#[test]
fn a_body_that_keeps_a_dry_tensor_panics_with_operator_and_bytes() {
    let _alone = alone();
    let mut kept = None;
    let text = panic_of(|| drop(dry_run(|| kept = Some(Tensor::ones([64, 64], FLOATS)))));
    assert!(text.contains("kept 1 tensors of 16384 bytes") && text.contains("ones"), "{text}");
    drop(kept);
}

#[test]
fn what_only_data_know_is_taken_as_known() {
    let _alone = alone();
    let data = Tensor::zeros([size(6), 2], FLOATS);
    dry_run(|| {
        assert_eq!(data.sum(Kind::Float).double_value(&[]), 1.0);
        assert_eq!(data.nonzero().size(), [12, 2]);
        assert_eq!(data.masked_select(&data.gt(0.0)).size(), [12]);
        assert_eq!(data.index(&[Some(data.select(1, 0).gt(0.0))]).size(), [6, 2]);
    })
    .unwrap();
}
