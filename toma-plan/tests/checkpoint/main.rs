//! Plans of checkpoints: tables worked out elsewhere, an exact search, a slow twin of the simulator, and bad input.

#![expect(clippy::float_cmp, reason = "times are small whole numbers, which floats hold exactly")]

mod bad_input;
mod chains;
mod exact;
mod illegal;
mod optimum;
mod parts;
mod properties;
mod recorded;
mod recording;
mod resnet;
#[path = "../../../tests/common/rounds.rs"]
mod rounds;
mod shown;
mod steps;
mod tables;
mod twin;

use proptest::prelude::ProptestConfig;
use proptest::test_runner::{RngAlgorithm, TestRunner};

use toma_plan::checkpoint::Plan;

pub(crate) fn runner(cases: u32) -> TestRunner {
    let algorithm = RngAlgorithm::XorShift;
    TestRunner::new(ProptestConfig { cases, rng_algorithm: algorithm, ..ProptestConfig::default() })
}

/// Returns the extra time in percent over a run that recomputes nothing.
pub(crate) fn percent_more(plan: &Plan, seconds: f64) -> f64 {
    (seconds / plan.keep_all_seconds() - 1.0) * 100.0
}
