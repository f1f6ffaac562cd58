//! Fixture programs: small crates that must exit successfully in every profile they list.
//!
//! The profiles are in a file of their own, so that nothing else is built with them by mistake.

use anyhow::Result;
use xshell::Cmd;

use super::{Checks, counted};
use crate::metadata::Settings;

/// The file with the profiles that only fixtures need.
const PROFILES: &str = "tests/fixtures/profiles.toml";

pub(super) fn step(checks: &Checks<'_>) -> Result<String> {
    run(checks, |settings| &settings.profiles)
}

/// Runs the fixtures in the profiles that they list for the night.
pub(super) fn nightly(checks: &Checks<'_>) -> Result<String> {
    run(checks, |settings| &settings.nightly_profiles)
}

fn run(checks: &Checks<'_>, profiles: fn(&Settings) -> &Vec<String>) -> Result<String> {
    let fixtures = checks.project.workspace.fixtures.iter();
    let runs = fixtures.flat_map(|fixture| {
        profiles(fixture.settings()).iter().map(|profile| run_profile(checks, &fixture.name, profile))
    });
    Ok(counted(checks.run_all(runs)?, "run"))
}

fn run_profile<'a>(checks: &Checks<'a>, fixture: &str, profile: &str) -> Cmd<'a> {
    let cargo = checks.project.cargo("run").args(["--config", PROFILES]);
    cargo.args(["--quiet", "-p", fixture, "--profile", profile])
}
