//! Running statistics, which batch norm writes without a new version: between forward and backward they may change.

use crate::ground;
use tch::nn::{self, ModuleT as _, VarStore};
use tch::{Kind, Tensor};
use toma_torch::checkpoint::{self, cut};

use crate::kit::{alone, bytes, numbers};

/// Runs `step` with `region` in place of plain calls.
type Step<'a> = &'a dyn Fn(&dyn Fn(&dyn Fn() -> Tensor) -> Tensor) -> Vec<Vec<u8>>;

/// Checks that the first run and the leanest plan produce the bits of the plain run.
fn same(name: &str, step: Step<'_>) {
    let plain = step(&|body| body());
    let form = checkpoint::with().name(name);
    for run in ["first", "planned"] {
        let regions = |body: &dyn Fn() -> Tensor| match form.known() {
            Some(costs) => form.budget(costs.least_bytes()).region(body),
            None => form.region(body),
        };
        assert!(step(&regions) == plain, "{name}: {run}");
    }
}

fn norm() -> nn::BatchNorm {
    tch::manual_seed(5);
    nn::batch_norm1d(VarStore::new(ground::device()).root(), 4, nn::BatchNormConfig::default())
}

/// Two stages of a product and a norm.
fn normed_twice(norm: &nn::BatchNorm, [x, w]: [&Tensor; 2], train: bool) -> Tensor {
    let h = norm.forward_t(&x.matmul(w), train).tanh();
    cut();
    norm.forward_t(&h.matmul(w), train).tanh()
}

fn operands() -> [Tensor; 2] {
    [numbers(2, &[8, 4]), numbers(1, &[4, 4]).set_requires_grad(true)]
}

#[test]
fn a_region_in_eval_mode_then_training_then_backward() {
    let _alone = alone();
    same("eval, then train", &|region| {
        let (norm, [x, w]) = (norm(), operands());
        let output = region(&|| normed_twice(&norm, [&x, &w], false));
        let _ = norm.forward_t(&(&x * 3.0 + 1.0), true);
        output.sum(Kind::Float).backward();
        [&output, &w.grad()].map(bytes).into()
    });
}

#[test]
fn two_regions_in_one_step_of_which_one_is_in_eval_mode() {
    let _alone = alone();
    for trains in [[false, true], [true, false]] {
        same(&format!("train: {trains:?}"), &|region| {
            let (norm, [x, w]) = (norm(), operands());
            let outputs = trains.map(|train| region(&|| normed_twice(&norm, [&x, &w], train)));
            (&outputs[0] * 2.0 + &outputs[1]).sum(Kind::Float).backward();
            [&outputs[0], &outputs[1], &w.grad()].map(bytes).into()
        });
    }
}

type Read = fn(&Tensor, &Tensor, &Tensor) -> Tensor;
const NONE: Option<&Tensor> = None;

/// Operators that read running statistics, in eval mode or always, and the same computed by hand.
const READERS: [(&str, Read); 11] = [
    ("batch_norm", |x, m, v| x.batch_norm(NONE, NONE, Some(m), Some(v), false, 0.1, 1e-5, false)),
    ("native_batch_norm", |x, m, v| x.native_batch_norm(NONE, NONE, Some(m), Some(v), false, 0.1, 1e-5).0),
    ("_native_batch_norm_legit", |x, m, v| {
        x.internal_native_batch_norm_legit(NONE, NONE, m, v, false, 0.1, 1e-5).0
    }),
    ("_native_batch_norm_legit_no_training", |x, m, v| {
        x.internal_native_batch_norm_legit_no_training(NONE, NONE, m, v, 0.1, 1e-5).0
    }),
    ("_native_batch_norm_legit_functional", |x, m, v| {
        let (h, _, _, mean, _) =
            x.internal_native_batch_norm_legit_functional(NONE, NONE, m, v, true, 0.1, 1e-5);
        h * mean.exp()
    }),
    ("_batch_norm_no_update", |x, m, v| {
        let (ones, zeros) = (Tensor::ones([4], ground::floats()), Tensor::zeros([4], ground::floats()));
        x.internal_batch_norm_no_update(Some(&ones), Some(&zeros), Some(m), Some(v), 0.1, 1e-5).0
    }),
    ("_batch_norm_with_update_functional", |x, m, v| {
        let ones = Tensor::ones([4], ground::floats());
        let zeros = Tensor::zeros([4], ground::floats());
        let made = x.internal_batch_norm_with_update_functional(Some(&ones), Some(&zeros), m, v, 0.1, 1e-5);
        made.0 * made.4.exp()
    }),
    ("instance_norm", |x, m, v| {
        let images = x.reshape([2, 4, 4]);
        images.instance_norm(NONE, NONE, Some(m), Some(v), false, 0.1, 1e-5, false).reshape([8, 4])
    }),
    ("a view of them", |x, m, v| {
        let (m, v) = (m.narrow(0, 0, 4), v.narrow(0, 0, 4));
        x.batch_norm(NONE, NONE, Some(&m), Some(&v), false, 0.1, 1e-5, false)
    }),
    ("by hand", |x, m, v| (x - m) / (v + 1e-5).sqrt()),
    ("by hand, of a view", |x, m, v| {
        let (m, v) = (m.view([1, 4]), v.view([1, 4]));
        cut();
        (x - m) * v
    }),
];

#[test]
fn operators_that_read_statistics_that_change_before_backward() {
    let _alone = alone();
    for (name, read) in READERS {
        same(name, &|region| {
            let [x, w] = operands();
            let (mean, variance) = (numbers(3, &[4]), numbers(4, &[4]).exp());
            let output = region(&|| {
                let h = read(&x.matmul(&w), &mean, &variance).tanh();
                cut();
                read(&h.matmul(&w), &mean, &variance).sigmoid().exp()
            });
            let _ = (&x * 5.0).batch_norm(NONE, NONE, Some(&mean), Some(&variance), true, 0.5, 1e-5, false);
            output.sum(Kind::Float).backward();
            [&output, &w.grad(), &mean, &variance].map(bytes).into()
        });
    }
}
