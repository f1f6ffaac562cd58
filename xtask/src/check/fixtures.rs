//! Fixture programs: small crates that must exit successfully in every profile they list.
//!
//! The profiles are in a file of their own, so that nothing else is built with them by mistake.

use anyhow::Result;

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
    let cargo = || checks.project.cargo("run").args(["--config", PROFILES, "--quiet"]);
    let runs = checks.project.workspace.fixtures.iter().flat_map(|fixture| {
        let run = move |profile: &String| cargo().args(["-p", &fixture.name, "--profile", profile]);
        profiles(fixture.settings()).iter().map(run)
    });
    Ok(counted(checks.run_all(runs)?, "run"))
}
