//! Failures that users of the original reported, and that no other test shows.

use std::cell::Cell;

use tch::nn::{self, Module as _, OptimizerConfig as _, RNN as _};
use tch::{Kind, Tensor};
use toma_core::predict::is_dry;
use toma_core::report::Report;
use toma_torch::{Backward as _, Forward as _, Loss, ModeGuard};

use super::ROWS;
use crate::dry::enter_cpu_autocast;
use crate::ground::{self, Budget, doubles, peak_of};
use crate::stage::{alone, difference, predicted, report, size};

/// Returns the report of `work` in about as much memory as half of the rows take.
fn in_half_the_memory(mut work: impl FnMut(usize)) -> Report {
    // Tensors that the first run makes and leaves, such as gradients, exist in the other runs.
    work(ROWS);
    let [whole, single] = [ROWS, 1].map(|most| peak_of(|| work(most)));
    let _budget = Budget::beyond_allocated(u64::midpoint(whole, single));
    work(ROWS);
    report()
}

fn assert_protected(report: &Report) {
    assert_eq!(report.out_of_memory, 0, "{report}");
    assert!(report.predicted.is_some() && report.attempts > 1, "{report}");
}

/// The original evaluated 131,070 times.
#[test]
fn sixteen_residual_blocks_are_evaluated_once_for_each_piece() {
    let _alone = alone();
    let weight = Tensor::ones([6, 6], doubles()).set_requires_grad(true);
    let data = Tensor::rand([size(ROWS), 6], doubles());
    let [dry, real] = [(); 2].map(|()| Cell::new(0));
    let loss = predicted().max(5).backward(Loss::Mean, &weight, &data, |rows| {
        let block = |x: Tensor, _| {
            let count = if is_dry() { &dry } else { &real };
            count.set(count.get() + 1);
            &x + x.matmul(&weight).tanh()
        };
        (0..16).fold(rows.shallow_clone(), block).mean(None)
    });
    drop(loss);
    // Two pieces each at 4 and 8 rows, and two more at the size that was chosen.
    assert_eq!((real.get(), dry.get()), (16 * 2, 16 * 6));
}

#[test]
fn a_body_that_names_the_batch_or_a_number_works_in_pieces_that_fit() {
    let _alone = alone();
    let weight = Tensor::rand([64, 64], ground::floats());
    let data = Tensor::rand([size(ROWS), 8, 8], ground::floats());
    let bodies: [fn(&Tensor, &Tensor) -> Tensor; 4] = [
        |x, _| x.exp().view([x.size()[0], -1]).sqrt(),
        |x, _| x * 2.0 + 1.0,
        |x, weight| x.flatten(1, -1).matmul(weight).tanh(),
        |x, _| x.permute([0, 2, 1]).contiguous().exp(),
    ];
    for (at, body) in bodies.into_iter().enumerate() {
        let run = |most| predicted().key(at).max(most).forward(&data, |rows| body(rows, &weight));
        assert_protected(&in_half_the_memory(|most| drop(run(most))));
        let off = difference(&[run(3)], &[body(&data, &weight)]);
        assert!(off < 1e-4, "{at}: {off}");
    }
}

#[test]
fn bfloat16_attention_and_lstm_are_protected() {
    let _alone = alone();
    tch::manual_seed(1);
    let variables = nn::VarStore::new(ground::device());
    let lstm = nn::lstm(&variables.root() / "lstm", 32, 32, nn::RNNConfig::default());
    let linear = nn::linear(&variables.root() / "linear", 32, 96, nn::LinearConfig::default());
    let data = Tensor::rand([size(ROWS), 8, 32], ground::floats());
    let attend = |rows: &Tensor| {
        let heads = linear.forward(rows).view([-1, 8, 3, 2, 16]).permute([2, 0, 3, 1, 4]);
        let [q, k, v] = [0, 1, 2].map(|at| heads.get(at));
        Tensor::scaled_dot_product_attention(&q, &k, &v, None::<&Tensor>, 0.0, true, None, false)
    };
    let cast = |rows: &Tensor| {
        let _modes = ModeGuard::new();
        enter_cpu_autocast();
        let output = linear.forward(rows);
        assert_eq!(output.kind(), Kind::BFloat16);
        output
    };
    let nets: [&dyn Fn(&Tensor) -> Tensor; 3] = [&cast, &attend, &|rows| lstm.seq(rows).0];
    for (at, net) in nets.into_iter().enumerate() {
        let mut optimizer = nn::Sgd::default().build(&variables, 0.0).unwrap();
        let report = in_half_the_memory(|most| {
            let loss = predicted().key(at).max(most).backward(Loss::Mean, &variables, &data, |rows| {
                net(rows).to_kind(Kind::Float).square().mean(None)
            });
            drop(loss);
            optimizer.zero_grad();
        });
        assert_protected(&report);
    }
}
