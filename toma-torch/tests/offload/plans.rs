//! Steps that are detected, planned and executed.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use crate::ground::{self, FailingAllocation};
use tch::Tensor;
use tch::nn;
use tch::nn::OptimizerConfig as _;
use toma_plan::residency::{MoveKind, Plan, Situation, Step, Terms, simulate};
use toma_torch::offload::{Event, Eviction, Flow, Genoa, Lru, Manager, NextEvent, Report};

use crate::kit::{Rule, alone, bits, budget_of, caught, entered, manager, step_of};
use crate::nets::{self, NETS, Net};
use crate::rounds::rounds;

/// Fetches and moved bytes of a step, its loss, and the plan for the next one.
pub(crate) struct Trained {
    pub(crate) figures: [u64; 3],
    pub(crate) loss: Vec<u32>,
    pub(crate) plan: Option<Plan>,
}

/// Trains a step for each item that is taken from the iterator.
pub(crate) fn moved(
    manager: &Manager,
    net: &Net,
    rule: Rule,
    is_marked: bool,
) -> impl Iterator<Item = Trained> {
    let mut train = step_of(net, rule);
    tch::manual_seed(3);
    let figures = |report: Report| [report.fetches, report.bytes_in, report.bytes_out];
    std::iter::repeat_with(move || {
        let before = figures(manager.report());
        let loss = if is_marked { manager.step(&mut train) } else { train() };
        let after = figures(manager.report());
        let figures = [0, 1, 2].map(|at| after[at] - before[at]);
        Trained { figures, loss, plan: manager.plan().plan().cloned() }
    })
}

/// Rounds after which each moves the same bytes as the one before.
const ROUNDS: usize = 7;

/// With eviction on demand, each repetition of a known step moves the bytes that the simulator predicts.
#[test]
fn the_simulator_and_the_run_agree_to_the_byte() {
    let _alone = alone();
    for at in [0, 2, 1, 4].into_iter().take(rounds(1, 4)) {
        let bytes = budget_of(NETS[at], 62);
        let evictions: [fn() -> Box<dyn Eviction>; 2] = [|| Box::new(Lru), || Box::new(NextEvent)];
        for eviction in evictions {
            let (manager, _entered) = entered(ground::allocated_bytes() + bytes, eviction());
            let net = NETS[at]();
            let figures: Vec<_> =
                moved(&manager, &net, Rule::Sgd, true).map(|step| step.figures).take(ROUNDS).collect();
            let planned = manager.plan();
            let step = planned.step().expect("it has been repeated");
            let terms = Terms::bytes_alone(planned.terms().budget_bytes);
            let outcome = simulate(step, &terms, &mut *eviction(), ROUNDS);
            let last = outcome.rounds.last().unwrap();
            assert_eq!(
                figures[ROUNDS - 1][1..],
                [last.bytes_in, last.bytes_out],
                "{} {}",
                net.name,
                eviction().name()
            );
            println!("{} {}: {:?}", net.name, eviction().name(), figures[ROUNDS - 1]);
        }
    }
}

/// Late fetches change the plan a few times, so moved bytes are compared once a plan has been unchanged for two steps.
#[test]
fn a_step_is_noticed_and_its_plan_moves_less_than_the_least_recently_used_would() {
    const STEPS: usize = 16;
    let _alone = alone();
    let bytes = budget_of(nets::transformer, 40);
    let expected: Vec<_> = {
        let net = nets::transformer();
        let learn = step_of(&net, Rule::Sgd);
        tch::manual_seed(3);
        std::iter::repeat_with(learn).take(STEPS).collect()
    };
    for is_marked in [true, false] {
        let (manager, _entered) = entered(ground::allocated_bytes() + bytes, Flow::default());
        let net = nets::transformer();
        let stands = |steps: &[Trained]| {
            let of_last = steps.last_chunk().filter(|_| steps.len() >= 8);
            of_last.is_some_and(|[before, first, second]: &[_; 3]| {
                first.plan.is_some() && before.plan == first.plan && first.plan == second.plan
            })
        };
        let mut steps = Vec::new();
        let mut training = moved(&manager, &net, Rule::Sgd, is_marked);
        while !stands(&steps) {
            steps.extend(training.next());
            let loss = expected.get(steps.len() - 1).expect("a plan stands by then");
            assert_eq!(steps.last().map(|step| &step.loss), Some(loss), "marked: {is_marked}");
        }
        let figures: Vec<_> = steps.iter().map(|step| step.figures).collect();
        let planned = manager.plan();
        println!("{is_marked}: {figures:?}\n{planned}\n{}", manager.report());
        let plan = planned.plan().expect("the step is known");
        let [[_, before_in, before_out], [_, bytes_in, bytes_out]] = [figures[1], figures[steps.len() - 1]];
        assert!(bytes_in + bytes_out < before_in + before_out, "{figures:?}");
        assert!(
            bytes_in + bytes_out <= (plan.bytes_in() + plan.bytes_out()) * 11 / 10,
            "{figures:?}, {plan}"
        );
    }
}

/// Returns the bytes that each of four steps moves in 50 % of the memory, their losses, and the plan if predicted.
fn moved_of(net: fn() -> Net, is_marked: bool, predicts: bool) -> (Vec<u64>, Vec<Vec<u32>>, Option<Plan>) {
    let bytes = budget_of(net, 50);
    let (manager, _entered) = entered(ground::allocated_bytes() + bytes, Flow::default());
    let net = net();
    // An optimizer without state, because a dry run could not make one.
    let optimizer = RefCell::new(nn::sgd(0.0, 0.0, 0.0, false).build(&net.variables, 1e-3).unwrap());
    let learn = || {
        let loss = net.loss();
        loss.backward();
        optimizer.borrow_mut().step();
        loss
    };
    if predicts {
        manager.predict(learn).unwrap();
    }
    let plan = manager.plan().plan().cloned();
    tch::manual_seed(3);
    let step = |_| {
        let before = manager.report();
        let loss = if is_marked { manager.step(learn) } else { learn() };
        let after = manager.report();
        optimizer.borrow_mut().zero_grad();
        (after.bytes_in + after.bytes_out - before.bytes_in - before.bytes_out, bits(&loss))
    };
    let (moved, losses): (Vec<_>, Vec<_>) = (0..4).map(step).unzip();
    println!("{} marked: {is_marked}, predicted: {predicts}: {moved:?}", net.name);
    (moved, losses, plan)
}

/// The first step moves the bytes of its plan, and storages that have never been evicted, such as its input.
#[test]
fn a_step_that_is_predicted_is_planned_before_it_has_run() {
    let _alone = alone();
    for at in [1, 2].into_iter().take(rounds(1, 2)) {
        let (unpredicted, expected, _) = moved_of(NETS[at], true, false);
        for is_marked in [true, false] {
            let moves_what_is_planned = || {
                let (predicted, losses, plan) = moved_of(NETS[at], is_marked, true);
                assert_eq!(losses, expected);
                assert!(predicted[0] < unpredicted[0], "{predicted:?}, {unpredicted:?}");
                let plan = plan.expect("it is planned");
                println!("{plan}");
                predicted[0] <= (plan.bytes_in() + plan.bytes_out()) * 101 / 100
            };
            // On a busy machine a planned move may come too late, and another storage is evicted in its place.
            assert!((0..3).any(|_| moves_what_is_planned()), "marked: {is_marked}");
        }
    }
}

#[test]
fn a_step_that_differs_from_its_prediction_goes_on_by_demand() {
    let _alone = alone();
    let weights: Vec<_> = (0..6).map(|at| Tensor::full([64, 64], at, ground::floats()) * 0.01).collect();
    let chain = |order: &[usize]| {
        order.iter().fold(Tensor::ones([64, 64], ground::floats()), |x, at| x.matmul(&weights[*at]).tanh())
    };
    let orders: [&[usize]; 3] = [&[0, 1, 2, 3, 4, 5], &[5, 4, 3], &[0, 1, 2, 5, 5, 1, 0]];
    let expected = orders.map(|order| bits(&chain(order)));
    let manager = manager(Flow::default()).budget(ground::allocated_bytes() - (2 << 14));
    let error = manager.predict(|| chain(orders[0])).unwrap_err().to_string();
    assert!(error.starts_with("offload: nothing to predict"), "{error}");
    let _entered = manager.enter().unwrap();
    assert!(caught(|| manager.predict(|| -> Tensor { panic!("a step's own panic") })).is_err());
    for (order, expected) in orders.iter().zip(&expected) {
        manager.predict(|| chain(orders[0])).unwrap();
        assert!(manager.plan().plan().is_some(), "{}", manager.plan());
        let before = manager.report();
        for round in 0..3 {
            assert_eq!(&bits(&chain(order)), expected);
            // A failed fetch is retried, a failed operator is not.
            let failing = FailingAllocation::after(round);
            let outcome = caught(|| chain(order));
            drop(failing);
            assert!(outcome.is_err() || &bits(&outcome.unwrap()) == expected);
        }
        assert!(manager.report().operators > before.operators, "they are reported again");
    }
}

/// Plans the first step it is asked for, and answers with that plan from then on.
#[derive(Default)]
struct First(Flow, Option<Plan>);

impl Eviction for First {
    fn name(&self) -> &'static str {
        "first"
    }

    fn evict(&mut self, situation: &Situation<'_>) -> Vec<u64> {
        self.0.evict(situation)
    }

    fn plan(&mut self, step: &Step, terms: &Terms) -> Option<Plan> {
        self.1 = self.1.take().or_else(|| self.0.plan(step, terms));
        self.1.clone()
    }
}

#[test]
fn a_plan_of_another_step_is_not_followed() {
    let _alone = alone();
    let weights: Vec<_> = (0..6).map(|at| Tensor::full([64, 64], at, ground::floats()) * 0.01).collect();
    let chain = |count: usize| {
        let weights = weights.iter().take(count);
        weights.fold(Tensor::ones([64, 64], ground::floats()), |x, weight| x.matmul(weight).tanh())
    };
    let expected = [4, 6].map(|count| bits(&chain(count)));
    let budget = ground::allocated_bytes() - (2 << 14);
    for counts in [[6, 4], [4, 6]] {
        let manager = manager(First::default()).budget(budget);
        let _entered = manager.enter().unwrap();
        for (at, is_planned) in [(0, true), (1, false)] {
            manager.predict(|| chain(counts[at])).unwrap();
            assert_eq!(manager.plan().plan().is_some(), is_planned, "{}", manager.plan());
            for _ in 0..3 {
                assert_eq!(bits(&chain(counts[at])), expected[usize::from(counts[at] == 6)]);
            }
        }
    }
}

/// A move: `true` if it was a fetch, its bytes, and `true` if they were copied.
type Moved = (bool, u64, bool);

/// Without pins the run equals its simulation: all storages are evicted after each operator, in the same order.
#[test]
fn genoa_moves_as_in_its_simulation_move_by_move() {
    let _alone = alone();
    let events: Arc<Mutex<Vec<Moved>>> = Arc::default();
    let received = Arc::clone(&events);
    let manager = manager(Genoa).observer(move |event| {
        received.lock().unwrap().push(match event {
            Event::Fetched { bytes, .. } => (true, *bytes, true),
            Event::Offloaded { bytes, is_copied, .. } => (false, *bytes, *is_copied),
            other => panic!("neither in nor out: {other:?}"),
        });
    });
    // Each layer has a size of its own, which identifies it.
    let sizes = [16, 24, 40, 56, 72, 88];
    let layers: Vec<_> = sizes
        .windows(2)
        .map(|two| {
            [
                Tensor::ones([two[0], two[1]], ground::floats()) * 0.01,
                Tensor::zeros([two[1]], ground::floats()),
            ]
        })
        .collect();
    let input = Tensor::ones([8, 16], ground::floats());
    let _entered = manager.enter().unwrap();
    let rounds = 8;
    for round in 0..rounds {
        if round + 1 == rounds {
            events.lock().unwrap().clear();
        }
        manager.step(|| {
            let output = layers
                .iter()
                .fold(input.shallow_clone(), |x, [weight, bias]| Tensor::addmm(bias, &x, weight).tanh());
            let [weight, _] = &layers[0];
            // A write to one weight, so that it is copied each time.
            tch::no_grad(|| drop(weight.shallow_clone().g_mul_scalar_(0.5)));
            drop(output.square());
        });
    }
    let planned = manager.plan();
    let step = planned.step().expect("it has been repeated");
    let outcome = simulate(step, &Terms::bytes_alone(u64::MAX / 4), &mut Genoa, rounds);
    let last = outcome.log.iter().filter(|one| one.operator >= ((rounds - 1) * step.operators.len()) as u64);
    let expected: Vec<Moved> = last
        .map(|one| {
            let bytes = step.storages[usize::try_from(one.storage).unwrap()].bytes;
            (one.kind == MoveKind::Fetched, bytes, one.kind != MoveKind::Left)
        })
        .collect();
    assert!(expected.len() > 30, "{expected:?}");
    assert_eq!(*events.lock().unwrap(), expected);
}
