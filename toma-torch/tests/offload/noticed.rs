//! Steps of programs that do not mark where a step begins.

use crate::ground;
use toma_plan::residency::Storage;
use toma_torch::offload::Flow;

use crate::kit::{Rule, alone, budget_of, entered};
use crate::nets::{NETS, Net};
use crate::plans;
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
    let steps: Vec<_> = plans::moved(&manager, &net, rule, is_marked).take(STEPS).collect();
    let bytes: Vec<_> = steps.iter().map(|step| step.figures[1] + step.figures[2]).collect();
    let unplanned = steps.iter().filter(|step| step.plan.is_none()).count();
    let planned = manager.plan();
    let step = planned.step().expect("it has been repeated");
    let operators = step.operators.len();
    let crosses = |storage: &&Storage| {
        storage.birth.is_none_or(|birth| storage.death.is_none_or(|death| death <= birth))
    };
    let crossing_bytes = step.storages.iter().filter(crosses).map(|storage| storage.bytes).sum();
    let mebibytes = bytes.iter().map(|bytes| bytes >> 20).collect::<Vec<_>>();
    println!("{} {rule:?} marked: {is_marked}, {operators} operators: {mebibytes:?}", net.name);
    let losses = steps.into_iter().map(|step| step.loss).collect();
    Moved { bytes, losses, unplanned, operators, crossing_bytes }
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
