//! What takes too long for `cargo xtask test`.

use anyhow::Result;
use xshell::Cmd;

use super::{Checks, torch};
use crate::args::Args;
use crate::project::Features;

/// Attempts in each stress test when `--attempts` does not say otherwise.
const ATTEMPTS: &str = "1000000";

/// What the stress tests go by; they say themselves what is wrong with a number.
#[derive(Debug, Default)]
pub(super) struct Length {
    attempts: Option<String>,
    seed: Option<String>,
}

impl Length {
    pub(super) fn parse(args: &mut Args) -> Result<Self> {
        Ok(Self { attempts: args.value("--attempts")?, seed: args.value("--seed")? })
    }

    fn give<'a>(&self, cargo: Cmd<'a>) -> Cmd<'a> {
        let cargo = cargo.env("TOMA_STRESS_ATTEMPTS", self.attempts.as_deref().unwrap_or(ATTEMPTS));
        self.seed.iter().fold(cargo, |cargo, seed| cargo.env("TOMA_STRESS_SEED", seed))
    }
}

pub(super) fn stress(checks: &Checks<'_>) -> Result<String> {
    let cargo = checks.project.cargo_all("test", Features::All).args(["--test", "stress"]);
    checks.run_all([checks.options.length.give(cargo)])?;
    Ok(String::new())
}

pub(super) fn torch_stress(checks: &Checks<'_>) -> Result<String> {
    let environment = checks.provision.libtorch()?;
    let packages = checks.project.workspace.with_libtorch.iter();
    let runs = packages.map(|package| {
        let cargo = torch::cargo_test(checks.project, package).args(["--test", "torch", "stress::"]);
        environment.give(checks.options.length.give(cargo))
    });
    checks.run_all(runs)?;
    Ok(String::new())
}

pub(super) fn regret(checks: &Checks<'_>) -> Result<String> {
    let cargo = checks.project.cargo_all("bench", Features::All).args(["--bench", "regret"]);
    checks.run_all([cargo])?;
    Ok(String::new())
}
