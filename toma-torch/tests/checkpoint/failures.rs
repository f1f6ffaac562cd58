//! After a failure anywhere nothing leaks, and the next step behaves as if there had been none.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::ground::{self, FailingAllocation};
use tch::{Kind, Tensor};
use toma_torch::ModeGuard;
use toma_torch::checkpoint::{self, Solver};

use crate::kit::{self, Net, alone, drop_stranded};
use crate::nets;

/// Lets each allocation of a step fail once.
fn fails_everywhere(net: &Net, step: impl Fn(&Net)) -> u32 {
    step(net);
    net.put_back();
    let plain = net.plain();
    let before = ground::allocated_bytes();
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
        assert_eq!(ground::allocated_bytes(), before, "{}: after failure {skip}", net.name);
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

#[test]
fn a_write_that_fails_and_is_tried_again_keeps_what_it_needs() {
    let _alone = alone();
    let float = ground::floats();
    let gradient = |skip: Option<u32>, region: &dyn Fn(&dyn Fn() -> Tensor) -> Tensor| {
        let w = Tensor::full([4, 4], 0.3, float).set_requires_grad(true);
        let buffer = Tensor::full([4, 4], 0.7, float);
        let (three, has_failed) = (Tensor::full([4, 4], 3.0, float), Cell::new(false));
        let output = region(&|| {
            let h = (&w + &buffer).tanh().sigmoid();
            checkpoint::cut();
            let h = (h.matmul(&w) + &buffer).tanh().sigmoid();
            checkpoint::cut();
            // Stages that have read the buffer are recomputed now, and their results kept.
            let failing = skip.map(FailingAllocation::after);
            let mut written = buffer.shallow_clone();
            let first = written.f_add_(&three).is_ok();
            has_failed.set(failing.as_ref().is_some_and(FailingAllocation::has_failed));
            drop(failing);
            if !first {
                let _ = written.f_add_(&three).unwrap();
            }
            (h.matmul(&w) + &buffer).tanh()
        });
        output.sum(Kind::Float).backward();
        (kit::bytes(&w.grad()), has_failed.get())
    };
    let (plain, _) = gradient(None, &|body| body());
    let mut failures = 0;
    for skip in 0.. {
        // A new name each time, so that this is the region's first run, which drops activations.
        let name = format!("write again {skip}");
        let form = checkpoint::with().name(&name);
        let (left, has_failed) = gradient(Some(skip), &|body| form.region(body));
        assert!(left == plain, "failure {skip}");
        failures += u32::from(has_failed);
        if !has_failed {
            break;
        }
    }
    assert!(failures > 3, "{failures}");
}

#[test]
fn a_first_run_without_memory_names_measuring_and_the_least_bytes() {
    let _alone = alone();
    // A card's allocator takes megabytes at once.
    let w = Tensor::ones([64, 64], (Kind::Float, tch::Device::Cpu)).set_requires_grad(true);
    let net = || w.f_sigmoid()?.f_tanh()?.f_exp()?.f_sum(Kind::Float);
    let form = checkpoint::with().name("without memory");
    let error = {
        let _budget = toma_torch::cpu::Budget::beyond_allocated(40_000);
        form.f_region(net).unwrap_err().to_string()
    };
    let costs = form.measure(|| net().unwrap()).unwrap();
    let text = "checkpoint: the first run of a region follows no plan, and one of its stages needs ";
    let (_, bytes) = error.split_once(text).unwrap_or_else(|| panic!("{error}"));
    let bytes: u64 = bytes.split(' ').next().unwrap().parse().unwrap();
    assert!(error.contains("run it once by `measure`"), "{error}");
    assert!(bytes > 0 && bytes <= costs.least_bytes(), "{bytes} {}", costs.least_bytes());
    form.budget(form.least_budget().unwrap()).f_region(net).unwrap().backward();
}
