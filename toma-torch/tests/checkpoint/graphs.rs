//! Uses of a graph other than a single backward.

use crate::ground;
use tch::{Kind, Tensor};
use toma_torch::accumulate_gradients;
use toma_torch::checkpoint::{self, Solver};

use crate::kit::{alone, bytes, numbers, plans, stages};

fn variable(seed: i64) -> Tensor {
    numbers(seed, &[5, 5]).set_requires_grad(true)
}

/// A chain of four stages.
fn chain(x: &Tensor, w: &Tensor) -> Tensor {
    stages(4, x, |value| (value.matmul(w).tanh() * x).sigmoid())
}

/// A chain of two variables.
type Chain<'a> = &'a dyn Fn(&Tensor, &Tensor) -> Tensor;

/// Checks that `work` returns the same with a region on its second run, with the leanest plan, and without regions.
fn same(name: &str, work: impl Fn(Chain<'_>, &Tensor, &Tensor) -> Vec<Tensor>) {
    let (x, w) = (variable(1), variable(2));
    let work = |chain: Chain<'_>| work(chain, &variable(1), &variable(2));
    let plain = work(&chain);
    let form = checkpoint::with().name(name).verify(true);
    let costs = form.measure(|| chain(&x, &w)).unwrap();
    let plans =
        [costs.least_bytes(), costs.keep_all_bytes()].map(|budget| costs.plan(budget, Solver::Auto).unwrap());
    let first = checkpoint::with().verify(true);
    for form in [first, form.plan(&plans[0]), form.plan(&plans[1])] {
        let made = work(&|x, w| form.region(|| chain(x, w)));
        assert_eq!(made.len(), plain.len());
        for (made, plain) in made.iter().zip(&plain) {
            assert_eq!(bytes(made), bytes(plain), "{name}");
        }
    }
}

#[test]
fn a_second_backward_gives_the_same_again() {
    let _alone = alone();
    same("second backward", |net, x, w| {
        let loss = net(x, w).sum(Kind::Float);
        Tensor::run_backward(&[&loss], &[x], true, false);
        let twice = Tensor::run_backward(&[&loss], &[x, w], true, false);
        loss.backward();
        vec![twice[0].shallow_clone(), twice[1].shallow_clone(), x.grad(), w.grad()]
    });
}

#[test]
fn gradients_of_gradients_are_the_same() {
    let _alone = alone();
    same("double backward", |net, x, w| {
        let loss = net(x, w).square().sum(Kind::Float);
        let slope = Tensor::run_backward(&[loss], &[x], true, true);
        slope[0].square().sum(Kind::Float).backward();
        vec![slope[0].detach(), x.grad(), w.grad()]
    });
}

#[test]
fn a_backward_inside_takes_what_its_stages_have_left_in_every_plan() {
    let _alone = alone();
    let (x, w) = (variable(1), variable(2));
    let net = || {
        let hidden = chain(&x, &w);
        checkpoint::cut();
        let energy = hidden.matmul(&w).exp().sum(Kind::Float);
        let force = Tensor::run_backward(&[&energy], &[&x, &hidden], true, true);
        checkpoint::cut();
        ((&force[0] + &force[1]) * &hidden).tanh().matmul(&w).sigmoid()
    };
    let gradients = |output: Tensor| {
        let gradients = Tensor::run_backward(&[output.square().mean(Kind::Float)], &[&x, &w], false, false);
        gradients.iter().map(bytes).collect::<Vec<_>>()
    };
    let expected = gradients(net());
    let form = checkpoint::with().name("inside").verify(true);
    let costs = form.measure(net).unwrap();
    for plan in plans(&costs, 8) {
        assert_eq!(gradients(form.plan(&plan).region(net)), expected, "{plan}");
    }
}

#[test]
fn a_part_of_the_graph_is_enough() {
    let _alone = alone();
    same("parts", |net, x, w| {
        let output = net(x, w);
        let rows = output.split(2, 0);
        let first = Tensor::run_backward(&[rows[0].sum(Kind::Float)], &[w], true, false);
        drop(rows);
        output.narrow(1, 1, 2).sum(Kind::Float).backward();
        vec![first[0].shallow_clone(), x.grad(), w.grad()]
    });
}

#[test]
fn gradients_are_added_all_or_none() {
    let _alone = alone();
    same("accumulated", |net, x, w| {
        for _ in 0..2 {
            accumulate_gradients(&net(x, w).sum(Kind::Float), &[x, w]).unwrap();
        }
        vec![x.grad(), w.grad()]
    });
}

#[test]
fn the_output_outlives_its_graph_and_a_graph_that_is_dropped_repeats_nothing() {
    let _alone = alone();
    let (x, w) = (variable(1), variable(2));
    let output = checkpoint::region(|| chain(&x, &w)).detach();
    assert_eq!(bytes(&output), bytes(&chain(&x, &w)));
    assert!(checkpoint::last().unwrap().is_over());
    assert_eq!(checkpoint::last().unwrap().repeats(), [0; 4]);
}

#[test]
fn a_change_in_place_before_backward_is_an_error() {
    let _alone = alone();
    let [_, of_weight, _] = [0, 1, 2].map(|changed| {
        let (x, w) = (variable(1), variable(2));
        let output = checkpoint::region(|| chain(&x, &w));
        tch::no_grad(|| drop([&x, &w, &output][changed].shallow_clone().zero_()));
        let error = output.sum(Kind::Float).f_backward().unwrap_err().to_string();
        assert!(error.contains("modified by an inplace operation"), "{changed}: {error}");
        error
    });
    assert!(!of_weight.contains("frame #"), "without a backtrace: {of_weight}");
}

#[test]
fn without_gradients_a_region_is_a_plain_run() {
    let _alone = alone();
    let (x, w) = (variable(1), variable(2));
    let form = checkpoint::with().name("plain");
    let plain = tch::no_grad(|| form.region(|| chain(&x, &w)));
    assert!(!plain.requires_grad());
    form.enabled(false).region(|| chain(&x, &w)).sum(Kind::Float).backward();
    assert!(form.known().is_none() && checkpoint::last().is_none());
}

#[test]
fn a_panic_inside_ends_the_region_and_leaves_gradients_on() {
    let _alone = alone();
    let (x, w) = (variable(1), variable(2));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        checkpoint::region(|| {
            drop(chain(&x, &w));
            tch::no_grad(|| panic!("half-way"))
        });
    }));
    assert!(panicked.is_err());
    assert!((&w * 2.0).requires_grad());
    let before = bytes(&chain(&x, &w));
    assert!(checkpoint::last().is_none(), "nothing records any more");
    assert_eq!(bytes(&checkpoint::region(|| chain(&x, &w))), before);
}

#[test]
fn a_panic_half_way_through_an_operator_error_is_caught_and_work_goes_on() {
    let _alone = alone();
    let (x, w) = (variable(1), variable(2));
    let work = |x: &Tensor| {
        let value = x.tanh();
        assert!(value.f_matmul(&Tensor::ones([7, 7], ground::floats())).is_err());
        checkpoint::cut();
        value.matmul(&w).sigmoid()
    };
    work(&x).sum(Kind::Float).backward();
    let plain = bytes(&w.grad());
    let _ = w.grad().zero_();
    checkpoint::region(|| work(&x)).sum(Kind::Float).backward();
    assert_eq!(bytes(&w.grad()), plain);
}
