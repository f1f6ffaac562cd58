//! A thread that draws random numbers next to dry runs and measurements gets each of its numbers once.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tch::nn::{self, RNN as _};
use tch::{Kind, Tensor};
use toma_core::predict::is_dry;
use toma_core::{NoCache, execute};
use toma_torch::{Backward as _, Device, DryRun, Loss, RngState, checkpoint, dry_run};

use crate::ground;
use crate::stage::alone;

const NONE: Option<&Tensor> = None;

/// Draws a number from the process's generator.
fn draw() -> i64 {
    Tensor::randint(1 << 30, [1], (Kind::Int64, ground::device())).int64_value(&[0])
}

/// Draws from the process's generator while `beside` runs on another thread.
fn drawn_beside(beside: impl FnOnce()) -> Vec<i64> {
    let is_over = AtomicBool::new(false);
    tch::manual_seed(17);
    thread::scope(|scope| {
        let draws = scope.spawn(|| {
            let mut drawn = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                drawn.push(draw());
            }
            drawn
        });
        let outcome = catch_unwind(AssertUnwindSafe(beside));
        is_over.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|panic| resume_unwind(panic));
        draws.join().unwrap()
    })
}

fn assert_drawn_once(drawn: &[i64]) {
    assert!(drawn.len() > 100, "{} numbers", drawn.len());
    tch::manual_seed(17);
    let alone = drawn.iter().map(|_| draw());
    let differs = alone.zip(drawn).position(|(alone, drawn)| alone != *drawn);
    assert_eq!(differs, None, "of {}", drawn.len());
}

type Draws = fn(&Tensor) -> Tensor;

/// Operators that draw, by themselves or by an operator that they call.
const DRAW: [(&str, Draws); 20] = [
    ("dropout", |x| x.dropout(0.5, true)),
    ("native_dropout", |x| x.native_dropout(0.5, true).0),
    ("feature_dropout", |x| x.feature_dropout(0.5, true)),
    ("alpha_dropout", |x| x.alpha_dropout(0.5, true)),
    ("attention", |x| {
        let x = x.reshape([1, 1, 8, 8]);
        Tensor::scaled_dot_product_attention(&x, &x, &x, NONE, 0.5, false, None, false).reshape([8, 8])
    }),
    ("attention that drops nothing", |x| {
        let x = x.reshape([1, 1, 8, 8]);
        Tensor::scaled_dot_product_attention(&x, &x, &x, NONE, 0.0, false, None, false).reshape([8, 8])
    }),
    ("lstm", |x| {
        let vs = nn::VarStore::new(ground::device());
        let config = nn::RNNConfig { num_layers: 2, dropout: 0.5, train: true, ..Default::default() };
        let states = nn::lstm(vs.root(), 8, 8, config).seq(&x.reshape([2, 4, 8])).0;
        states.reshape([8, 8])
    }),
    ("rand", |x| x * Tensor::rand([8, 8], ground::floats())),
    ("randn", |x| x * Tensor::randn([8, 8], ground::floats())),
    ("rand_like", |x| x * x.rand_like()),
    ("randn_like", |x| x * x.randn_like()),
    ("randint", |x| x * Tensor::randint(9, [8, 8], ground::floats())),
    ("randint_like", |x| x * x.randint_like(9)),
    ("randperm", |x| x.index_select(0, &Tensor::randperm(8, (Kind::Int64, ground::device())))),
    ("normal_", |x| x * x.zeros_like().normal_(0.0, 1.0)),
    ("uniform_", |x| x * x.zeros_like().uniform_(0.0, 1.0)),
    ("exponential_", |x| x * x.zeros_like().exponential_(1.0)),
    ("random_", |x| x * x.zeros_like().random_()),
    ("bernoulli", |x| x * x.detach().sigmoid().bernoulli()),
    ("poisson", |x| x * x.detach().exp().poisson()),
];

#[test]
fn a_dry_run_takes_no_numbers_of_another_thread() {
    let _alone = alone();
    let x = Tensor::ones([8, 8], ground::floats()).set_requires_grad(true);
    let drawn = drawn_beside(|| {
        for _ in 0..20 {
            for (_, draws) in DRAW {
                dry_run(|| draws(&x).sum(Kind::Float).backward()).unwrap();
            }
        }
    });
    assert_drawn_once(&drawn);
}

#[test]
fn measuring_takes_no_numbers_of_another_thread() {
    let _alone = alone();
    let x = Tensor::ones([8, 8], ground::floats()).set_requires_grad(true);
    let drawn = drawn_beside(|| {
        for _ in 0..20 {
            for (name, draws) in DRAW {
                let body = || {
                    let h = draws(&(&x * 0.5).tanh());
                    checkpoint::cut();
                    draws(&h.tanh()).sigmoid()
                };
                checkpoint::with()
                    .verify(true)
                    .measure(body)
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
            }
        }
    });
    assert_drawn_once(&drawn);
}

#[test]
fn a_seed_within_a_dry_run_or_a_measurement_is_put_back() {
    let _alone = alone();
    let x = Tensor::ones([8, 8], ground::floats()).set_requires_grad(true);
    for (seed, drawn) in [(3, 0), (3, 5), (4, 5)] {
        tch::manual_seed(3);
        let _ = Tensor::rand([1 + drawn], ground::floats());
        let before = RngState::of(ground::device()).unwrap();
        let body = || {
            tch::manual_seed(seed);
            x.dropout(0.5, true).tanh()
        };
        dry_run(|| body().sum(Kind::Float).backward()).unwrap();
        assert_eq!(RngState::of(ground::device()).unwrap(), before, "dry: {seed} after {drawn}");
        checkpoint::with().measure(body).unwrap();
        assert_eq!(RngState::of(ground::device()).unwrap(), before, "measured: {seed} after {drawn}");
    }
}

/// The other thread draws at once, as one that makes a net does.
#[test]
fn a_seed_from_which_another_thread_draws_stays() {
    let _alone = alone();
    let seeded = || {
        tch::manual_seed(5);
        draw()
    };
    let on_another_thread = || thread::scope(|scope| scope.spawn(seeded).join().unwrap());
    let [first, second] = [seeded(), draw()];
    let x = Tensor::ones([8, 8], ground::floats()).set_requires_grad(true);
    tch::manual_seed(3);
    dry_run(|| assert_eq!(on_another_thread(), first)).unwrap();
    assert_eq!(draw(), second, "after a dry run");
    tch::manual_seed(3);
    let measured = || {
        assert_eq!(on_another_thread(), first);
        x.tanh()
    };
    checkpoint::with().measure(measured).unwrap();
    assert_eq!(draw(), second, "after a measurement");
}

fn seeds_on_another_thread() {
    thread::scope(|scope| scope.spawn(|| tch::manual_seed(5)).join().unwrap());
}

/// Once a piece has run, its body is run dry with all items, and meanwhile another thread seeds.
#[test]
fn a_body_that_runs_dry_while_another_thread_seeds_is_split() {
    let _alone = alone();
    let data = Tensor::arange(8, ground::doubles());
    let weight = Tensor::ones([], ground::doubles()).set_requires_grad(true);
    let (has_run, has_seeded) = (Cell::new(false), Cell::new(false));
    draw();
    let loss = execute::with::<NoCache>().max(4).backward(Loss::Found, &weight, &data, |rows| {
        if !is_dry() {
            has_run.set(true);
        } else if has_run.get() && !has_seeded.replace(true) {
            seeds_on_another_thread();
        }
        (rows * &weight).sum(Kind::Double)
    });
    assert!(has_seeded.get());
    assert_eq!((loss.double_value(&[]), weight.grad().double_value(&[])), (28.0, 28.0));
}

/// Another thread seeds in the first dry run of the prediction, by which the call is judged, too.
#[test]
fn a_body_that_is_predicted_while_another_thread_seeds_is_split() {
    let _alone = alone();
    let device = Device::new(ground::device());
    let data = Tensor::arange(8, ground::doubles());
    let weight = Tensor::ones([], ground::doubles()).set_requires_grad(true);
    let has_seeded = Cell::new(false);
    draw();
    let form = execute::with::<NoCache>().device(&device).predict(&DryRun).max(4);
    let loss = form.backward(Loss::Found, &weight, &data, |rows| {
        if is_dry() && !has_seeded.replace(true) {
            seeds_on_another_thread();
        }
        (rows * &weight).sum(Kind::Double)
    });
    assert!(has_seeded.get());
    assert_eq!((loss.double_value(&[]), weight.grad().double_value(&[])), (28.0, 28.0));
}
