//! The steps of `cargo xtask test` and `cargo xtask nightly`, cheap ones first.

use anyhow::Result;

use super::{Checks, fixtures, layout, lints, marks, nightly, package, programs, suites, torch};

/// One check with a name.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) when: When,
    /// What it checks, in one line.
    pub(super) checks: &'static str,
    /// Gives a short note for the table, or what is wrong.
    pub(super) run: fn(&Checks<'_>) -> Result<String>,
}

/// Which command runs a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// `test`, with `--fast` as well.
    Fast,
    /// `test`, and with `--fast` where files of a package that needs libtorch have been changed.
    TorchChanged,
    /// `test` without `--fast`.
    Full,
    /// `nightly`.
    Nightly,
}

use When::{Fast, Full, Nightly, TorchChanged};

/// Every step, in the order in which they run.
///
/// The steps from `clippy` to `doc` share the checked dependencies. `test` and most after it share one debug
/// build. Those that need libtorch come last: without it the others have been run.
pub(super) const STEPS: &[Step] = &[
    step("fmt", Fast, "sources are formatted", lints::fmt),
    step("layout", Fast, "file sizes, unsafe, circles of files, links", layout::step),
    step("clippy", Fast, "lints of every target in every package, with all features", lints::clippy),
    step("features", Full, "lints with no feature, and of the libraries with each alone", lints::features),
    step("doc", Full, "documentation builds without warnings, private items too", lints::doc),
    step("package", Full, "packages compile from their own files", package::step),
    step("test", Fast, "unit and integration tests, with all features", suites::all),
    step("test-bare", Full, "unit and integration tests, with no feature", suites::bare),
    step("doc-tests", Full, "examples in the documentation, with all features", suites::doc),
    step("optimized", Full, "tests that draw many cases, optimized, with all features", suites::optimized),
    step("benches", Full, "each benchmark runs once, optimized", programs::benches),
    step("examples", Full, "examples run and end well, optimized", programs::examples),
    step("profiles", Full, "fixture programs end well in each profile they list", fixtures::step),
    step("libtorch", TorchChanged, "a libtorch for the steps below, installed if need be", torch::provide),
    step("torch", TorchChanged, "tests, documentation and benchmarks with libtorch", torch::test),
    step("torch-examples", Full, "examples with libtorch: their tests, and each runs", torch::examples),
    step("shim", TorchChanged, "the shim's own test under sanitizers", torch::shim),
    step("stress", Nightly, "16 threads make a million attempts on the fake device", nightly::stress),
    step("torch-stress", Nightly, "the same with real tensors", nightly::torch_stress),
    step("budgets", Nightly, "10,000 random budgets for nets that are predicted", nightly::budgets),
    step("ranks", Nightly, "ranks are killed at 150 random moments", nightly::ranks),
    step("rounds", Nightly, "what shows one property over and over, in full length", nightly::rounds),
    step("nets", Nightly, "what is said of large nets, against counted bytes", nightly::nets),
    step("test-bare-slow", Nightly, "the slow tests with no feature", suites::bare_slow),
    step("test-optimized", Nightly, "other tests that the optimizer may change", suites::optimized_too),
    step("cases", Nightly, "unit and integration tests, each property with 1,024 cases", suites::cases),
    step("regret", Nightly, "the bars of the benchmark `regret`, over its whole grid", nightly::regret),
    step("all-profiles", Nightly, "fixture programs in the profiles left to the night", fixtures::nightly),
    step(
        "package-torch",
        Nightly,
        "toma-torch is built with libtorch from what is in its package",
        package::nightly,
    ),
    step("mark-all", Nightly, "every function of the core and the examples can be marked", marks::step),
];

const fn step(
    name: &'static str,
    when: When,
    checks: &'static str,
    run: fn(&Checks<'_>) -> Result<String>,
) -> Step {
    Step { name, when, checks, run }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_have_different_names() {
        let names: std::collections::HashSet<_> = STEPS.iter().map(|step| step.name).collect();
        assert_eq!(names.len(), STEPS.len());
    }
}
