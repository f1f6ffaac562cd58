//! Loss, gradients, statistics and random state are those of the plain run.

use toma_torch::checkpoint::{self, Solver};

use crate::kit::Net;
use crate::nets;

fn nets() -> Vec<Net> {
    vec![nets::residual()]
}

#[test]
fn bits_are_those_of_the_plain_run_on_every_solvers_plans() {
    for net in nets() {
        let plain = net.plain();
        assert_eq!(net.plain(), plain, "{}: not repeatable at all", net.name);
        let form = checkpoint::with().name(net.name).verify(true);
        assert_eq!(net.step(|forward| form.region(forward)), plain, "{}: first run", net.name);
        println!("{}", checkpoint::last().unwrap());
        let costs = form.measure(&*net.forward).unwrap();
        for stage in costs.stages() { println!("a {} A {} d {} x {} X {} rx {} rX {} y {}", stage.output_bytes, stage.saved_bytes, stage.gradient_bytes, stage.forward_peak_bytes, stage.saving_peak_bytes, stage.repeat_peak_bytes, stage.repeat_saving_peak_bytes, stage.backward_peak_bytes); }
        let (least, most) = (costs.least_bytes(), costs.keep_all_bytes());
        for solver in Solver::ALL {
            for budget in [least, (least + most) / 2, most] {
                let Ok(plan) = costs.plan(budget, solver) else { continue };
                let form = form.plan(&plan);
                assert_eq!(net.step(|forward| form.region(forward)), plain, "{}: {plan}", net.name);
                let last = checkpoint::last().unwrap();
                println!("{solver} {:?} {:?} {:?} {}", last.repeats(), plan.repeats().collect::<Vec<_>>(), last.peak_bytes() as i64 - plan.peak_bytes() as i64, plan.actions().iter().map(|a| a.to_string()).collect::<Vec<_>>().join(", "));
            }
        }
    }
}
