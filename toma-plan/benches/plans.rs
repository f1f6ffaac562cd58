//! How long plans of ResNet-152 take to be found: 52 stages, at 826 MiB of 2690.
//!
//! ```text
//! plans           medians of 11 runs
//! plans --test    each case once
//! ```

#[path = "common/median.rs"]
mod median;
#[path = "../tests/checkpoint/resnet.rs"]
mod resnet;

use std::hint::black_box;

use toma_plan::checkpoint::Solver;

use median::median;
use resnet::{Grain, Inside, resnet152};

const BUDGET_BYTES: u64 = 826 << 20;

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let rounds = if is_test { 1 } else { 11 };
    for (inside, name) in [(Inside::Whole, "whole stages"), (Inside::Parts, "with parts of stages")] {
        let costs = resnet152(inside, Grain::Byte);
        for solver in [Solver::Rotor, Solver::Auto] {
            let taken = median(rounds, || drop(black_box(costs.plan(BUDGET_BYTES, solver))));
            println!("{solver:>12} {name}: {taken:.1?}");
        }
        let taken = median(rounds, || {
            black_box(costs.least_bytes());
        });
        println!("{:>12} {name}: {taken:.1?}", "least bytes");
    }
}
