//! Loss, gradients, statistics and random state are those of the plain run.

use toma_torch::checkpoint::{self, Costs};

use crate::kit::{Net, alone, plans};
use crate::nets;

#[test]
fn bits_are_those_of_the_plain_run_on_every_solvers_plans() {
    let _alone = alone();
    for net in nets::all() {
        let plain = net.plain();
        assert_eq!(net.plain(), plain, "{}: not the same twice without a region", net.name);
        let form = checkpoint::with().name(net.name).verify(true);
        assert_eq!(net.step(|forward| form.region(forward)), plain, "{}: first run", net.name);
        let costs = form.measure(&*net.forward).unwrap();
        assert_eq!(net.plain(), plain, "{}: measuring leaves no trace", net.name);
        for plan in plans(&costs, 2) {
            let form = form.plan(&plan);
            assert_eq!(net.step(|forward| form.region(forward)), plain, "{}: {plan}", net.name);
            runs_as_planned(&net, &costs);
        }
    }
}

/// Each stage is recomputed as often as planned, except stages from which backward needs nothing.
fn runs_as_planned(net: &Net, costs: &Costs) {
    let last = checkpoint::last().unwrap();
    assert_eq!(last.differs(), None, "{}", net.name);
    let planned = last.plan().unwrap().repeats();
    for ((stage, repeats), planned) in costs.stages().iter().zip(last.repeats()).zip(planned) {
        // A backward inside the region adds recomputations of its own.
        if stage.backward_seconds > 0.0 && net.name != "graphs" {
            assert_eq!(repeats as usize, planned, "{}: {last}", net.name);
        }
    }
}

#[test]
fn kept_stages_are_reported() {
    let _alone = alone();
    let kept = |net: &Net| {
        net.step(|forward| checkpoint::region(forward));
        checkpoint::last().unwrap().kept().to_vec()
    };
    assert_eq!(kept(&nets::residual()), [""; 0], "statistics of batch norm are put back");
    let kept = kept(&nets::outside());
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert!(
        kept[0].starts_with("stage 0: aten::lerp_.Scalar writes to memory that tensors from outside"),
        "{kept:?}"
    );
    assert!(kept[1].starts_with("stage 1: "), "{kept:?}");
}
