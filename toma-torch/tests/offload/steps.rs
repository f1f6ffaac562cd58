//! Training steps as the offloader records them.

use std::fs;
use std::path::Path;

use tch::nn::{self, OptimizerConfig as _};
use toma_plan::residency::{Genoa, Step, Terms, simulate};
use toma_trace::Size;

use crate::alone::alone;
use crate::ground;
use crate::nets::{self, NETS, Net};

/// Records a step that has been repeated before, on one thread.
fn recorded(net: &Net, min_bytes: u64) -> Step {
    let mut optimizer = nn::sgd(0.9, 0.0, 0.0, false).build(&net.variables, 1e-3).unwrap();
    let mut train = || optimizer.backward_step(&net.loss());
    for _ in 0..5 {
        train();
    }
    Step::of(&toma_torch::record(train), &ground::place(), min_bytes)
}

#[test]
fn least_budgets_are_those_of_single_operators() {
    let _alone = alone();
    // The largest operators: `addmm` (input, weight, bias, result), and `add_` (a weight of 256 x 1024 and its gradient).
    for (net, least_bytes) in [(nets::perceptron(), 2_099_200), (nets::transformer(), 2_097_152)] {
        let step = recorded(&net, 1);
        step.check().unwrap();
        assert_eq!(step.least_budget().1, least_bytes, "{}", net.name);
        let outcome = simulate(&step, &Terms::bytes_alone(least_bytes), &mut Genoa, 2);
        assert_eq!((outcome.peak_bytes, outcome.out_of_memory), (least_bytes, None));
    }
}

/// `cargo xtask torch -- test --release -p toma-torch --test offload steps:: -- --ignored`
#[test]
#[ignore = "writes the recorded steps of toma-plan's tests anew, whose optima then have to be computed anew"]
fn write_recorded_steps() {
    let _alone = alone();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../toma-plan/tests/residency/recorded");
    fs::create_dir_all(&folder).unwrap();
    for net in NETS {
        let net = net();
        let step = recorded(&net, 64 << 10);
        let text = serde_json::to_string(&step).unwrap();
        println!(
            "{}: {} operators, {} storages, {} bytes, peak {}, least {}, {:.3} s",
            net.name,
            step.operators.len(),
            step.storages.len(),
            text.len(),
            Size::of(step.peak_bytes()),
            step.least_budget().1,
            step.seconds(),
        );
        fs::write(folder.join(format!("{}.json", net.name)), text + "\n").unwrap();
    }
}
