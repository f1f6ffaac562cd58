//! Steps of programs that do not mark where a step begins.

use crate::ground;
use toma_plan::residency::Storage;
use toma_torch::offload::{Flow, Report};

use crate::kit::{Rule, alone, bits, budget_of, entered};
use crate::nets::{NETS, Net};
use crate::rounds::rounds;

const STEPS: usize = 8;

struct Moved {
    /// Moved bytes of each step.
    bytes: Vec<u64>,
    losses: Vec<Vec<u32>>,
    /// Steps before there was a plan.
    unplanned: usize,
    operators: usize,
    /// Bytes of storages that live from one step into the next.
    crossing_bytes: u64,
}

/// Trains in half of the memory.
fn moved(net: fn() -> Net, rule: Rule, is_marked: bool) -> Moved {
    let bytes = budget_of(net, 50);
    let (manager, _entered) = entered(ground::allocated_bytes() + bytes, Flow::default());
    let net = net();
    let mut optimizer = rule.build(&net.variables);
    tch::manual_seed(3);
    let mut train = || {
        let loss = net.loss();
        optimizer.backward_step(&loss);
        bits(&loss)
    };
    let mut moved =
        Moved { bytes: Vec::new(), losses: Vec::new(), unplanned: 0, operators: 0, crossing_bytes: 0 };
    for _ in 0..STEPS {
        let before = bytes_of(manager.report());
        moved.losses.push(if is_marked { manager.step(&mut train) } else { train() });
        moved.bytes.push(bytes_of(manager.report()) - before);
        moved.unplanned += usize::from(manager.plan().plan().is_none());
    }
    let planned = manager.plan();
    let step = planned.step().expect("it has been repeated");
    moved.operators = step.operators.len();
    let crosses = |storage: &&Storage| {
        storage.birth.is_none_or(|birth| storage.death.is_none_or(|death| death <= birth))
    };
    moved.crossing_bytes = step.storages.iter().filter(crosses).map(|storage| storage.bytes).sum();
    let mebibytes = moved.bytes.iter().map(|bytes| bytes >> 20).collect::<Vec<_>>();
    println!("{} {rule:?} marked: {is_marked}, {} operators: {mebibytes:?}", net.name, moved.operators);
    moved
}

fn bytes_of(report: Report) -> u64 {
    report.bytes_in + report.bytes_out
}

/// The optimizer's operators repeat within each step, and so do those of the blocks, but neither is a step.
#[test]
fn a_detected_step_is_planned_as_early_as_a_marked_one() {
    let _alone = alone();
    for net in NETS.into_iter().take(rounds(1, 3)) {
        for (rule, most_unplanned) in [(Rule::Plain, 2), (Rule::Sgd, 3)] {
            let [marked, noticed] = [true, false].map(|is_marked| moved(net, rule, is_marked));
            assert_eq!(noticed.losses, marked.losses);
            assert_eq!(noticed.operators, marked.operators);
            assert!(noticed.crossing_bytes <= marked.crossing_bytes);
            assert!(noticed.unplanned <= most_unplanned, "{}", noticed.unplanned);
            // The reduction depends on how fast links and operators are.
            let last: u64 = noticed.bytes[STEPS - 4..].iter().sum();
            assert!(last <= 4 * noticed.bytes[1], "{:?}", noticed.bytes);
        }
    }
}
