//! Checks that take too long for `cargo xtask test`.

use anyhow::Result;

use super::checks::{Checks, Length};
use super::{suites, torch};
use crate::project::Features;

impl Length {
    /// Variables of the stress tests.
    fn variables(&self) -> impl Iterator<Item = (&'static str, String)> {
        let seed = self.seed.map(|seed| ("TOMA_STRESS_SEED", seed.to_string()));
        seed.into_iter().chain([("TOMA_STRESS_ATTEMPTS", self.attempts.to_string())])
    }
}

pub(super) fn stress(checks: &Checks<'_>) -> Result<String> {
    let cargo = checks.project.cargo_all("test", Features::All).args(["--test", "stress"]);
    checks.pass([cargo.envs(checks.length.variables())])
}

pub(super) fn torch_stress(checks: &Checks<'_>) -> Result<String> {
    let cargo = torch::cargo(checks)?("test").args(["--test", "torch", "stress::"]);
    checks.pass([cargo.envs(checks.length.variables())])
}

/// Draws 10,000 budgets; `torch` draws 72.
pub(super) fn budgets(checks: &Checks<'_>) -> Result<String> {
    let cargo = torch::cargo(checks)?("test").args(["--test", "torch", "budgets::"]);
    checks.pass([cargo.envs(checks.length.variables()).env("TOMA_BUDGETS", "10000")])
}

/// Kills each of three ranks at 50 moments.
pub(super) fn ranks(checks: &Checks<'_>) -> Result<String> {
    let cargo = torch::cargo(checks)?("test").args(["--test", "ranks", "killed::"]);
    checks.pass([cargo.env("TOMA_KILLS", "50")])
}

/// Ten minutes of training.
pub(super) fn soak(checks: &Checks<'_>) -> Result<String> {
    let args = ["--test", "offload", "--", "--nocapture", "--ignored", "soak::"];
    // On one core, because another step runs at the same time.
    checks.pass([torch::cargo(checks)?("test").args(args).env("OMP_NUM_THREADS", "1")])
}

/// Tests that call `rounds` of `tests/common/rounds.rs`, in full.
pub(super) fn rounds(checks: &Checks<'_>) -> Result<String> {
    let with_libtorch = torch::cargo(checks)?;
    let of_torch = [
        ("offload", "storm::"),
        ("offload", "exact:: failures:: noticed:: plans:: rare:: threads:: what_another_thread_reads"),
        (
            "torch",
            "dry_failures:: every_allocation:: any_budget_is_used many_runs_of_two_threads sweeps:: vision::",
        ),
        ("checkpoint", "random_plans:: retry::"),
    ];
    let others = [
        ("calibrated", "none_is_killed"),
        ("checkpoint", "optimum:: properties:: recording:: steps:: tables::"),
        ("loops", "chunks:: rules::"),
        ("ranks", "every_order::"),
        ("residency", "optima:: periods::"),
    ];
    let optimized = || checks.project.cargo_all("test", Features::All).args(suites::OPTIMIZED);
    let of_torch = of_torch.map(|tests| (with_libtorch("test"), tests));
    let all = of_torch.into_iter().chain(others.map(|tests| (optimized(), tests)));
    checks.pass_in_pairs(all.map(|(cargo, (program, filters))| {
        let cargo = cargo.args(["--test", program, "--", "--nocapture"]).args(filters.split_whitespace());
        cargo.env("TOMA_ROUNDS", "night")
    }))
}

/// Uses fewer items than the benchmark does by default: as many predictions, and shorter steps. In bf16 a CPU
/// multiplies number by number.
pub(super) fn nets(checks: &Checks<'_>) -> Result<String> {
    let bench = ["--bench", "nets", "--", "--items", "12", "--bf16-items", "2"];
    checks.pass([torch::cargo(checks)?("bench").args(bench).env("OMP_NUM_THREADS", "1")])
}

/// Checks the bars, which are for the policy `Adaptive`.
pub(super) fn regret(checks: &Checks<'_>) -> Result<String> {
    let cargo =
        checks.project.cargo_all("bench", Features::All).args(["--bench", "regret", "--", "Adaptive"]);
    checks.pass([cargo])
}
