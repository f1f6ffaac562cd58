//! Steps that are noticed, planned and followed.

use toma_plan::residency::{Terms, simulate};
use toma_torch::cpu;
use toma_torch::offload::{Eviction, Flow, Lru, Manager, NextEvent, Report};

use crate::kit::{Rule, alone, bits, entered};
use crate::nets::{self, NETS, Net};

/// What each of so many steps moves, and their losses.
fn moved(manager: &Manager, net: &Net, steps: usize, told: bool) -> (Vec<[u64; 3]>, Vec<Vec<u32>>) {
    let mut optimizer = Rule::Sgd.build(&net.variables);
    tch::manual_seed(3);
    let figures = |report: Report| [report.fetches, report.bytes_in, report.bytes_out];
    let mut train = || {
        let loss = net.loss();
        optimizer.backward_step(&loss);
        bits(&loss)
    };
    let step = |_| {
        let before = figures(manager.report());
        let loss = if told { manager.step(&mut train) } else { train() };
        let after = figures(manager.report());
        ([0, 1, 2].map(|at| after[at] - before[at]), loss)
    };
    (0..steps).map(step).unzip()
}

fn budget_of(net: fn() -> Net, percent: u64) -> u64 {
    let before = cpu::allocated_bytes();
    cpu::reset_peak_allocated_bytes();
    let net = net();
    Rule::Sgd.build(&net.variables).backward_step(&net.loss());
    Rule::Sgd.build(&net.variables).backward_step(&net.loss());
    (cpu::peak_allocated_bytes() - before) * percent / 100
}

/// Until each moves what the one before did.
const ROUNDS: usize = 7;

/// On demand, each repetition of a known step moves what the simulator says.
#[test]
fn the_simulator_and_the_run_agree_to_the_byte() {
    let _alone = alone();
    for at in [0, 1, 2, 4] {
        let bytes = budget_of(NETS[at], 62);
        let evictions: [fn() -> Box<dyn Eviction>; 2] = [|| Box::new(Lru), || Box::new(NextEvent)];
        for eviction in evictions {
            let (manager, _entered) = entered(cpu::allocated_bytes() + bytes, eviction());
            let net = NETS[at]();
            let (figures, _) = moved(&manager, &net, ROUNDS, true);
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

#[test]
fn a_step_is_noticed_and_its_plan_moves_less_than_the_least_recently_used_would() {
    const STEPS: usize = 8;
    let _alone = alone();
    let bytes = budget_of(nets::transformer, 40);
    let expected: Vec<_> = {
        let net = nets::transformer();
        let mut optimizer = Rule::Sgd.build(&net.variables);
        tch::manual_seed(3);
        let learn = || {
            let loss = net.loss();
            optimizer.backward_step(&loss);
            bits(&loss)
        };
        std::iter::repeat_with(learn).take(STEPS).collect()
    };
    for told in [true, false] {
        let (manager, _entered) = entered(cpu::allocated_bytes() + bytes, Flow::default());
        let net = nets::transformer();
        let (figures, losses) = moved(&manager, &net, STEPS, told);
        assert_eq!(losses, expected, "told: {told}");
        let planned = manager.plan();
        println!("{told}: {figures:?}\n{planned}\n{}", manager.report());
        let plan = planned.plan().expect("the step is known");
        let [_, bytes_in, bytes_out] = figures[STEPS - 1];
        assert!(bytes_in + bytes_out < (figures[1][1] + figures[1][2]), "{figures:?}");
        assert!(
            bytes_in + bytes_out <= (plan.bytes_in() + plan.bytes_out()) * 11 / 10,
            "{figures:?}, {plan}"
        );
    }
}
