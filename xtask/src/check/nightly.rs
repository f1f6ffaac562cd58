//! Checks that take too long for `cargo xtask test`.

use anyhow::Result;
use xshell::Cmd;

use super::checks::{Checks, Length};
use super::{suites, torch};
use crate::project::Features;

impl Length {
    fn give<'a>(&self, cargo: Cmd<'a>) -> Cmd<'a> {
        self.give_seed(cargo.env("TOMA_STRESS_ATTEMPTS", &self.attempts))
    }

    fn give_seed<'a>(&self, cargo: Cmd<'a>) -> Cmd<'a> {
        self.seed.iter().fold(cargo, |cargo, seed| cargo.env("TOMA_STRESS_SEED", seed))
    }
}

/// Number of moments at which each of three ranks is killed.
const KILLS: &str = "50";

/// Number of random budgets; `torch` draws 72.
const BUDGETS: &str = "10000";

pub(super) fn stress(checks: &Checks<'_>) -> Result<String> {
    let cargo = checks.project.cargo_all("test", Features::All).args(["--test", "stress"]);
    checks.pass([checks.length.give(cargo)])
}

pub(super) fn torch_stress(checks: &Checks<'_>) -> Result<String> {
    let environment = checks.provision.libtorch()?;
    let cargo = torch::cargo_test(checks.project).args(["--test", "torch", "stress::"]);
    checks.pass([environment.give(checks.length.give(cargo))])
}

pub(super) fn budgets(checks: &Checks<'_>) -> Result<String> {
    let environment = checks.provision.libtorch()?;
    let cargo = torch::cargo_test(checks.project).args(["--test", "torch", "budgets::"]);
    checks.pass([environment.give(checks.length.give_seed(cargo.env("TOMA_BUDGETS", BUDGETS)))])
}

pub(super) fn ranks(checks: &Checks<'_>) -> Result<String> {
    let environment = checks.provision.libtorch()?;
    let cargo = torch::cargo_test(checks.project).args(["--test", "ranks", "killed::"]);
    checks.pass([environment.give(cargo.env("TOMA_KILLS", KILLS))])
}

/// Ten minutes of training.
pub(super) fn soak(checks: &Checks<'_>) -> Result<String> {
    let environment = checks.provision.libtorch()?;
    let cargo = torch::cargo_test(checks.project).args(["--test", "offload"]);
    checks.pass([environment.give(cargo).args(["--", "--nocapture", "--ignored", "soak::"])])
}

/// Tests that call `rounds` of `tests/common/rounds.rs`, in full.
pub(super) fn rounds(checks: &Checks<'_>) -> Result<String> {
    let environment = checks.provision.libtorch()?;
    let of_torch: [(_, &[_]); 4] = [
        ("offload", &["storm::"]),
        ("offload", &["exact::", "failures::", "noticed::", "plans::", "rare::", "threads::"]),
        (
            "torch",
            &["dry_failures::", "any_budget_is_used", "many_runs_of_two_threads", "sweeps::", "vision::"],
        ),
        ("checkpoint", &["random_plans::"]),
    ];
    let test = |name, args: &[&str]| {
        let cargo = torch::cargo_test(checks.project).args(["--test", name]);
        environment.give(cargo).args(["--", "--nocapture"]).args(args)
    };
    let of_torch = of_torch.map(|(name, filters)| test(name, filters));
    let others = [
        ["calibrated", "none_is_killed"],
        ["checkpoint", "optimum::"],
        ["checkpoint", "properties::"],
        ["loops", "rules::"],
        ["ranks", "every_order::"],
        ["residency", "optima::"],
        ["residency", "periods::"],
    ];
    let others = others.map(|[name, filter]| {
        let cargo = checks.project.cargo_all("test", Features::All).args(suites::OPTIMIZED);
        cargo.args(["--test", name, "--", "--nocapture", filter])
    });
    let all = of_torch.into_iter().chain(others);
    checks.run_in_pairs(all.map(|cargo| cargo.env("TOMA_ROUNDS", "night"))).map(|_| String::new())
}

/// Uses fewer items than the benchmark does by default: as many predictions, and shorter steps. In bf16 a CPU
/// multiplies number by number.
pub(super) fn nets(checks: &Checks<'_>) -> Result<String> {
    let environment = checks.provision.libtorch()?;
    let bench = ["-p", "toma-torch", "--bench", "nets", "--", "--items", "16", "--bf16-items", "2"];
    let cargo = checks.project.cargo("bench").args(bench);
    checks.pass([environment.give(cargo)])
}

/// Checks the bars, which are for the policy `Adaptive`.
pub(super) fn regret(checks: &Checks<'_>) -> Result<String> {
    let cargo =
        checks.project.cargo_all("bench", Features::All).args(["--bench", "regret", "--", "Adaptive"]);
    checks.pass([cargo])
}
