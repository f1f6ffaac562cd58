//! Costs that are learned for regions, and the detection that they no longer hold.

use crate::ground;
use tch::{Kind, Tensor};
use toma_torch::checkpoint::{self, Costs, Plan, Solver, With};

use crate::kit::{alone, bytes, stages};

fn variable(rows: i64) -> Tensor {
    Tensor::ones([rows, 64], ground::floats()).set_requires_grad(true)
}

fn chain(x: &Tensor, length: usize) -> Tensor {
    stages(length, x, Tensor::tanh)
}

#[test]
fn the_second_run_is_planned_and_each_size_is_known_by_itself() {
    let _alone = alone();
    let form = checkpoint::with().name("sizes");
    for rows in [8, 16] {
        let x = variable(rows);
        for planned in [false, true, true] {
            form.region(|| chain(&x, 6)).sum(Kind::Float).backward();
            assert_eq!(checkpoint::last().unwrap().plan().is_some(), planned, "{rows} rows");
        }
    }
    let x = variable(8);
    form.region(|| chain(&x, 6)).sum(Kind::Float).backward();
    assert!(checkpoint::last().unwrap().plan().is_some());
}

#[test]
fn another_structure_is_noticed_at_the_first_operator_that_differs() {
    let _alone = alone();
    let form = checkpoint::with().name("structures");
    let x = variable(8);
    form.region(|| chain(&x, 6)).sum(Kind::Float).backward();
    let least = form.known().unwrap().least_bytes();
    let gradient = |length| {
        let _ = x.grad().zero_();
        form.budget(least).region(|| chain(&x, length)).sum(Kind::Float).backward();
        (bytes(&x.grad()), checkpoint::last().unwrap().differs())
    };
    let plain = |length| {
        let _ = x.grad().zero_();
        chain(&x, length).sum(Kind::Float).backward();
        bytes(&x.grad())
    };
    assert_eq!(gradient(9), (plain(9), Some(6)), "it goes on where the other one ends");
    assert_eq!(gradient(9), (plain(9), None), "it is measured");
    assert_eq!(gradient(4), (plain(4), Some(4)), "it ends sooner");
    assert_eq!(gradient(4), (plain(4), None), "it is measured");
    assert_eq!(gradient(6), (plain(6), None), "it is known, and goes on as such");
    assert_eq!(gradient(9), (plain(9), None), "the same of the longer one");
    assert_eq!(gradient(4), (plain(4), None), "it ends sooner, as is known");
}

/// Begins like the other variants of the same shapes, and has most of its later operators in common with them.
fn variant(x: &Tensor, length: usize, differs_at: usize) -> Tensor {
    (0..length).fold(x.tanh(), |value, at| {
        checkpoint::cut();
        let value = if at == differs_at { value.sigmoid() } else { value.tanh() };
        (value * 1.5).dropout(0.3, true)
    })
}

#[test]
fn structures_that_begin_alike_are_planned_whole_in_any_order() {
    let _alone = alone();
    let form = checkpoint::with().name("alternating").verify(true);
    let (x, kinds) = (variable(8), [(6, 6), (6, 3), (4, 6), (9, 0), (9, 5)]);
    let gradient = |run: &dyn Fn() -> Tensor| {
        let _ = x.grad().zero_();
        tch::manual_seed(3);
        run().sum(Kind::Float).backward();
        bytes(&x.grad())
    };
    let needs = |(length, at)| checkpoint::with().measure(|| variant(&x, length, at)).unwrap().least_bytes();
    let budget = kinds.into_iter().map(needs).max().unwrap() * 5 / 4;
    x.sum(Kind::Float).backward();
    let mut random = fastrand::Rng::with_seed(5);
    for round in 0..90 {
        // The kinds take turns, then come in random order.
        let (length, at) = kinds[if round < 60 { round % kinds.len() } else { random.usize(0..kinds.len()) }];
        let form = if round % 7 == 0 { form.budget(4 * budget) } else { form.budget(budget) };
        let plain = gradient(&|| variant(&x, length, at));
        assert_eq!(gradient(&|| form.region(|| variant(&x, length, at))), plain, "round {round}");
        let report = checkpoint::last().unwrap();
        if round >= 40 {
            assert_eq!((report.differs(), report.stages()), (None, length + 1), "round {round}: {report}");
            let followed = report.plan().expect("all are known by now");
            assert_eq!(followed.stages(), length + 1);
            let repeats: Vec<_> = report.repeats().into_iter().map(|count| count as usize).collect();
            assert_eq!(repeats, followed.repeats().collect::<Vec<_>>(), "round {round}: {report}");
        }
    }
}

#[test]
fn two_structures_in_turn_are_known_after_the_second_time() {
    let _alone = alone();
    let form = checkpoint::with().name("in turn");
    let x = variable(8);
    let planned = (0..8).map(|round| {
        form.region(|| variant(&x, 4, round % 2)).sum(Kind::Float).backward();
        let last = checkpoint::last().unwrap();
        last.plan().is_some() && last.differs().is_none()
    });
    assert_eq!(planned.collect::<Vec<_>>(), [false, false, false, false, true, true, true, true]);
}

#[test]
fn a_plan_is_for_the_structure_of_its_stages() {
    let _alone = alone();
    let x = variable(8);
    let form = checkpoint::with().name("both");
    let plans = [3, 6].map(|length| {
        let costs = form.measure(|| chain(&x, length)).unwrap();
        (length, costs.plan(costs.least_bytes(), Solver::Auto).unwrap())
    });
    for (length, plan) in &plans {
        form.plan(plan).region(|| chain(&x, *length)).sum(Kind::Float).backward();
        let last = checkpoint::last().unwrap();
        assert_eq!((last.plan(), last.differs()), (Some(plan), None));
    }
}

#[test]
fn a_plan_of_another_structure_is_refused() {
    let _alone = alone();
    let x = variable(8);
    let costs = checkpoint::with().name("three").measure(|| chain(&x, 3)).unwrap();
    let plan: Plan = costs.plan(costs.least_bytes(), Solver::Auto).unwrap();
    let form = checkpoint::with().name("six");
    form.region(|| chain(&x, 6)).sum(Kind::Float).backward();
    let form = form.plan(&plan);
    let error = form.f_region(|| x.f_tanh()).map(drop).unwrap_err().to_string();
    assert!(error.contains("checkpoint six: a plan of 3 stages for a region of 6"), "{error}");
}

#[test]
fn plans_of_two_regions_with_as_many_stages_hold_elsewhere() {
    let _alone = alone();
    let x = variable(8);
    let other = |x: &Tensor| stages(7, &x.tanh(), Tensor::sigmoid);
    let plan = |costs: Costs| costs.plan(costs.least_bytes(), Solver::Auto).unwrap();
    let plans = [
        plan(checkpoint::with().measure(|| chain(&x, 8)).unwrap()),
        plan(checkpoint::with().measure(|| other(&x)).unwrap()),
    ];
    let bodies: [&dyn Fn() -> Tensor; 2] = [&|| chain(&x, 8), &|| other(&x)];
    for (plan, body) in plans.iter().zip(bodies) {
        let form = checkpoint::with().plan(plan);
        form.region(body).sum(Kind::Float).backward();
        let last = checkpoint::last().unwrap();
        assert_eq!((last.plan(), last.differs()), (Some(plan), None));
    }
}

#[test]
fn measuring_a_closure_that_trains_nothing_is_refused() {
    let _alone = alone();
    let x = Tensor::ones([4], ground::floats());
    let error = checkpoint::with().measure(|| x.tanh()).unwrap_err();
    assert!(error.to_string().contains("requires no gradient"), "{error}");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = checkpoint::with().measure(|| panic!("in the closure"));
    }));
    assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "in the closure");
}

#[test]
fn measuring_does_not_reach_what_lies_before_the_closure() {
    let _alone = alone();
    let weights = ["a", "b"].map(|_| Tensor::randn([8, 8], ground::floats()).set_requires_grad(true));
    let [first, second] = &weights;
    let (input, left) = (Tensor::ones([4, 8], ground::floats()), first * 2.0);
    let hidden = input.matmul(first).tanh();
    let net = |hidden: &Tensor| {
        let joined = Tensor::cat(&[hidden, &left.narrow(0, 0, 4)], 0).matmul(second).tanh();
        checkpoint::cut();
        hidden.contiguous().view([8, 4]).matmul(&joined.narrow(0, 0, 4)).sigmoid()
    };
    let expected = {
        let loss = net(&hidden).sum(Kind::Float);
        Tensor::run_backward(&[loss], &weights, true, false)
    };
    let costs = checkpoint::with().measure(|| net(&hidden)).unwrap();
    assert!(costs.least_bytes() > 0);
    let written = checkpoint::with().measure(|| net(&hidden.shallow_clone().g_mul_scalar_(3.0)));
    written.unwrap();
    for variable in &weights {
        assert!(!variable.grad().defined());
    }
    net(&hidden).sum(Kind::Float).backward();
    for (variable, expected) in weights.iter().zip(expected) {
        assert_eq!(variable.grad(), expected);
    }
}

#[test]
fn measuring_what_the_closure_did_not_make_is_refused() {
    let _alone = alone();
    let w = variable(8);
    let h = w.tanh();
    for returned in [&h, &w] {
        let error = checkpoint::with().measure(|| returned.shallow_clone()).unwrap_err().to_string();
        assert!(error.contains("returned a tensor that it did not make"), "{error}");
    }
    assert!(!w.grad().defined());
    h.sum(Kind::Float).backward();
}

#[test]
fn the_report_of_a_region_without_a_name_has_its_costs() {
    let _alone = alone();
    let weight = Tensor::ones([4], ground::floats()).set_requires_grad(true);
    let step = |weight: &Tensor| checkpoint::region(|| weight.sigmoid().tanh()).sum(Kind::Float).backward();
    assert!(checkpoint::with().known().is_none());
    step(&weight);
    let costs = checkpoint::last().and_then(|report| report.known()).expect("backward has run");
    step(&weight);
    assert_eq!(checkpoint::last().unwrap().plan().map(checkpoint::Plan::stages), Some(costs.stages().len()));
}

/// Runs a step in which the first operator of a stage may fail, and the one that would begin a last stage.
fn step_with_failures(form: &With<'_>, [x, weight]: [&Tensor; 2], fails: [bool; 2]) -> Vec<u8> {
    let wrong = Tensor::ones([3, 3], ground::floats());
    let output = form.region(|| {
        let hidden = x.matmul(weight);
        checkpoint::cut();
        if fails[0] {
            assert!(hidden.f_matmul(&wrong).is_err());
            checkpoint::cut();
        }
        let output = hidden.matmul(weight).tanh();
        checkpoint::cut();
        if fails[1] {
            assert!(output.f_matmul(&wrong).is_err());
        }
        output
    });
    weight.shallow_clone().zero_grad();
    output.sum(Kind::Float).backward();
    bytes(&weight.grad())
}

#[test]
fn stages_whose_first_operator_fails_are_those_of_a_step_without_failures() {
    let _alone = alone();
    let (x, weight) = (variable(8), Tensor::rand([64, 64], ground::floats()).set_requires_grad(true));
    for (at, fails) in [[true, false], [false, true], [true, true]].into_iter().enumerate() {
        let name = format!("first operator fails {at}");
        let form = checkpoint::with().name(&name);
        let expected = step_with_failures(&form.enabled(false), [&x, &weight], [false; 2]);
        for fails in [fails, [false; 2], fails, [false; 2]] {
            assert_eq!(step_with_failures(&form, [&x, &weight], fails), expected, "{at}");
        }
        let report = checkpoint::last().unwrap();
        assert_eq!(report.plan().map(Plan::stages), Some(report.stages()), "{at}");
    }
}
