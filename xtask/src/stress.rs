//! `cargo xtask stress`: the stress tests at length, where the checks make a few attempts only.

use std::process::ExitCode;

use anyhow::{Result, bail};
use xshell::Cmd;

use crate::args::Args;
use crate::handover;
use crate::project::{Features, Project};
use crate::provision::{Provision, build_of};

/// Attempts in each of the two tests when `--attempts` does not say otherwise.
const ATTEMPTS: &str = "1000000";

/// What the tests go by; they say themselves what is wrong with a number.
struct Length {
    attempts: String,
    seed: Option<String>,
}

pub(crate) fn command(mut args: Args) -> Result<ExitCode> {
    let build = build_of(&mut args)?;
    let attempts = args.value("--attempts")?.unwrap_or_else(|| ATTEMPTS.to_owned());
    let length = Length { attempts, seed: args.value("--seed")? };
    if let Some(name) = args.names()?.without_rest()?.first() {
        bail!("unexpected argument `{name}`: the stress tests have no names");
    }
    let project = Project::find()?;
    let provision = Provision::new(&project, build);
    // As the checks build them, so that nothing is built twice.
    let fake = project.cargo_all("test", Features::All).args(["--test", "stress"]);
    let tensors =
        project.cargo("test").args(["--release", "-p", "toma-torch", "--test", "torch", "stress::"]);
    let tensors = || Ok(provision.libtorch()?.give(length.give(tensors)));
    handover::run([Ok(length.give(fake))].into_iter().chain(std::iter::once_with(tensors)))
}

impl Length {
    fn give<'a>(&self, cargo: Cmd<'a>) -> Cmd<'a> {
        let cargo = cargo.env("TOMA_STRESS_ATTEMPTS", &self.attempts);
        self.seed.iter().fold(cargo, |cargo, seed| cargo.env("TOMA_STRESS_SEED", seed))
    }
}
