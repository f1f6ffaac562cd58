//! The steps of `cargo xtask test` and `cargo xtask nightly`.

use anyhow::Result;

use super::{Checks, card, fixtures, layout, lints, marks, nightly, package, programs, suites, torch};

/// One check with a name.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) when: When,
    /// Description of the check, in one line.
    pub(super) checks: &'static str,
    pub(super) run: Run,
}

/// Returns a short note for the table, or the problems.
type Run = fn(&Checks<'_>) -> Result<String>;

/// Which command runs a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// `test`, with `--fast` as well.
    Fast,
    /// `test`, and with `--fast` if files of a package that needs libtorch have been changed.
    TorchChanged,
    /// `test` without `--fast`.
    Full,
    /// `nightly`.
    Nightly,
}

use When::{Fast, Full, Nightly, TorchChanged};

/// Every step, in the order in which they run. By day the steps that fail most often and cost least come first.
/// `clippy` and `doc` share the checked dependencies. `profiles` builds in release, `card` and `shim` call a C++ compiler,
/// and all others by day share two builds, one of them with libtorch. At night the longest, `rounds` to `regret`, come
/// first.
pub(super) const STEPS: &[Step] = &[
    step("fmt", Fast, "sources are formatted", lints::fmt),
    step("layout", Fast, "file sizes, unsafe, circles of files, links", layout::step),
    step("clippy", Fast, "lints of every target in every package, with all features", lints::clippy),
    step("test", Fast, "unit and integration tests, with all features", suites::all),
    step("doc-tests", Full, "examples in the documentation, with all features", suites::doc),
    step("examples", Full, "examples run and exit with success", programs::examples),
    step("doc", Full, "documentation builds without warnings", lints::doc),
    step("profiles", Full, "fixture programs exit with success in each profile they list", fixtures::step),
    step("libtorch", TorchChanged, "a libtorch for the steps below, installed if need be", torch::provide),
    step("torch", TorchChanged, "tests and documentation with libtorch", torch::test),
    step("torch-examples", Full, "examples with libtorch: their tests, and each runs", torch::examples),
    step("card", TorchChanged, "checks for a GPU, on a paper card", card::step),
    step("shim", TorchChanged, "the shim's own test under sanitizers", torch::shim),
    step("rounds", Nightly, "tests that repeat one property, in full length", nightly::rounds),
    step("nets", Nightly, "predictions of large nets, against counted bytes", nightly::nets),
    step("card-nets", Nightly, "predictions of large nets, on a paper card", card::nightly),
    step("soak", Nightly, "ten minutes of training: memory does not grow", nightly::soak),
    step("budgets", Nightly, "10,000 random budgets for nets that are predicted", nightly::budgets),
    step("regret", Nightly, "the bars of the benchmark `regret`, over its whole grid", nightly::regret),
    step("features", Nightly, "lints with no feature, and of the libraries with each alone", lints::features),
    step("targets", Nightly, "the libraries without libtorch, for macOS and Windows", lints::targets),
    step("private-doc", Nightly, "documentation of private items", lints::private_doc),
    step("surface", Nightly, "public items are those of their snapshots", suites::surface),
    step("package", Nightly, "packages compile from their own files, with libtorch", package::step),
    step("compile-fail", Nightly, "messages of the compiler for invalid programs", suites::compile_fail),
    step("test-bare", Nightly, "unit and integration tests, with no feature", suites::bare),
    step("optimized", Nightly, "unit and integration tests, optimized, with 4,000 cases", suites::optimized),
    step("benches", Nightly, "each benchmark runs once, optimized", programs::benches),
    step("torch-benches", Nightly, "each benchmark with libtorch runs once", torch::benches),
    step("all-profiles", Nightly, "fixture programs in the profiles left to the night", fixtures::nightly),
    step("mark-all", Nightly, "every function of the core and the examples can be marked", marks::step),
    step("stress", Nightly, "16 threads make a million attempts on the fake device", nightly::stress),
    step("torch-stress", Nightly, "the same with real tensors", nightly::torch_stress),
    step("ranks", Nightly, "ranks are killed at 150 random moments", nightly::ranks),
];

const fn step(name: &'static str, when: When, checks: &'static str, run: Run) -> Step {
    Step { name, when, checks, run }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `nightly --from STEP` runs the rows below that of the step.
    #[test]
    fn each_step_has_a_name_of_its_own_and_a_row_of_contributing_in_their_order() {
        let (_, tables) = include_str!("../../../CONTRIBUTING.md").split_once("## The steps of").unwrap();
        let (tables, _) = tables.split_once("### Properties").unwrap();
        let cells = tables.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
        let named: Vec<_> = cells.flat_map(|cell| cell.split('`').step_by(2)).collect();
        let steps: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        assert_eq!(named, steps);
        assert_eq!(steps.iter().collect::<std::collections::HashSet<_>>().len(), steps.len());
    }
}
