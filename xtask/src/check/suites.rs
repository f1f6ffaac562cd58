//! The tests: unit and integration tests, documentation, optimized ones.

use anyhow::Result;
use xshell::Cmd;

use super::Checks;
use crate::project::Features;

/// With `--fast` without the tests that the facade lists as `slow-tests`, by parts of their names.
pub(super) fn all(checks: &Checks<'_>) -> Result<String> {
    tests(checks, Features::All, &if checks.options.fast { skipping_slow(checks)? } else { Vec::new() })
}

/// Without the slow tests: with all features the same engine runs with more around it.
pub(super) fn bare(checks: &Checks<'_>) -> Result<String> {
    tests(checks, Features::None, &skipping_slow(checks)?)
}

fn skipping_slow(checks: &Checks<'_>) -> Result<Vec<String>> {
    Ok(slow(checks)?.into_iter().flat_map(|name| ["--skip".to_owned(), name]).collect())
}

/// Those that [`bare`] leaves out.
pub(super) fn bare_slow(checks: &Checks<'_>) -> Result<String> {
    tests(checks, Features::None, &slow(checks)?)
}

fn slow(checks: &Checks<'_>) -> Result<Vec<String>> {
    Ok(checks.project.workspace.facade()?.listed("slow-tests").unwrap_or_default())
}

/// `--tests` leaves out examples, benchmarks and documentation, which are steps of their own.
fn tests(checks: &Checks<'_>, features: Features<'_>, filter: &[String]) -> Result<String> {
    let cargo = checks.project.cargo_all("test", features).arg("--tests");
    checks.run_all([quiet(cargo).args(filter)])?;
    Ok(String::new())
}

pub(super) fn doc(checks: &Checks<'_>) -> Result<String> {
    let cargo = checks.project.cargo_all("test", Features::All).arg("--doc");
    checks.run_all([quiet(cargo)])?;
    Ok(String::new())
}

/// The integration tests that packages list under `[package.metadata.toma] release-tests`.
pub(super) fn release(checks: &Checks<'_>) -> Result<String> {
    let packages = checks.project.workspace.packages.iter();
    let listed: Vec<_> = packages.filter_map(|package| package.listed("release-tests")).flatten().collect();
    if listed.is_empty() {
        return Ok("no tests listed".to_owned());
    }
    let cargo = checks.project.cargo_all("test", Features::All).arg("--release");
    checks.run_all([quiet(cargo.args(listed.iter().flat_map(|test| ["--test", test])))])?;
    Ok(String::new())
}

/// All test programs are run, whichever fails; what passes is a dot.
pub(super) fn quiet(cargo: Cmd<'_>) -> Cmd<'_> {
    cargo.args(["--no-fail-fast", "--", "--quiet"])
}
