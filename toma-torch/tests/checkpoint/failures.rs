//! After a failure anywhere nothing leaks, and the next step is as if there had been none.

use std::panic::{AssertUnwindSafe, catch_unwind};

use toma_torch::ModeGuard;
use toma_torch::checkpoint::{self, Solver};
use toma_torch::cpu::{self, FailingAllocation};

use crate::kit::{Net, alone, drop_stranded};
use crate::nets;

/// Lets each allocation of a step fail once.
fn fails_everywhere(net: &Net, step: impl Fn(&Net)) -> u32 {
    step(net);
    net.put_back();
    let plain = net.plain();
    let before = cpu::allocated_bytes();
    for skip in 0.. {
        let modes = ModeGuard::new();
        let failed = catch_unwind(AssertUnwindSafe(|| {
            let _failing = FailingAllocation::after(skip);
            step(net);
        }));
        drop(modes);
        if failed.is_ok() {
            return skip;
        }
        net.put_back();
        // Gradients of other branches wait in the thread's queue for its next backward.
        drop_stranded();
        assert_eq!(cpu::allocated_bytes(), before, "{}: after failure {skip}", net.name);
        if skip % 8 == 0 {
            assert_eq!(net.plain(), plain, "{}: after failure {skip}", net.name);
        }
    }
    unreachable!()
}

#[test]
fn a_failure_at_any_allocation_leaves_no_trace() {
    let _alone = alone();
    for net in [nets::small(), nets::transformer(), nets::outside()] {
        let name = format!("failures {}", net.name);
        let form = checkpoint::with().name(&name);
        let costs = form.measure(&*net.forward).unwrap();
        let plan = costs.plan(costs.least_bytes(), Solver::Auto).unwrap();
        let first = fails_everywhere(&net, |net| {
            net.train(|forward| checkpoint::with().name("first").region(forward));
        });
        let planned = fails_everywhere(&net, |net| net.train(|forward| form.plan(&plan).region(forward)));
        assert!(first > 20 && planned > 20, "{first} and {planned} allocations");
    }
}
