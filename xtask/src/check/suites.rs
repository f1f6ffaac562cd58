//! Tests of the packages that need no libtorch: unit and integration tests, documentation.

use anyhow::Result;
use xshell::Cmd;

use super::{Checks, counted};
use crate::metadata::Package;
use crate::project::Features;

/// Every library, program and integration test. Examples, benchmarks and documentation are steps of their own.
pub(super) const TESTS: [&str; 4] = ["--lib", "--bins", "--test", "*"];

/// Options of cargo in the nightly steps that optimize.
pub(super) const OPTIMIZED: [&str; 2] = ["--profile", "checked"];

/// Cases by day of each property that sets no number.
const CASES: &str = "64";
/// The same in the nightly step `optimized`.
const NIGHT_CASES: &str = "4000";

/// Runs all tests; with `--fast` without those that the root package lists as `slow-tests`, by parts of their names.
pub(super) fn all(checks: &Checks<'_>) -> Result<String> {
    let slow = if checks.fast {
        checks.project.workspace.listed(|settings| &settings.slow_tests)
    } else {
        Vec::new()
    };
    let filter = slow.into_iter().flat_map(|name| ["--skip".to_owned(), name]).collect::<Vec<_>>();
    tests(checks, Features::All, &[], &filter, CASES)
}

pub(super) fn bare(checks: &Checks<'_>) -> Result<String> {
    tests(checks, Features::None, &[], &[], CASES)
}

pub(super) fn optimized(checks: &Checks<'_>) -> Result<String> {
    tests(checks, Features::All, &OPTIMIZED, &[], NIGHT_CASES)
}

pub(super) fn doc(checks: &Checks<'_>) -> Result<String> {
    let cargo = checks.project.cargo_all("test", Features::All).arg("--doc");
    checks.pass([quiet(cargo)])
}

/// The wrong programs under `tests/ui`, each compiled by itself.
pub(super) fn compile_fail(checks: &Checks<'_>) -> Result<String> {
    let cargo = checks.project.cargo_all("test", Features::All).args(["--test", "macros", "mistakes::"]);
    checks.pass([cargo.args(["--", "--ignored"])])
}

/// The public items of each package, against `tests/surface`.
pub(super) fn surface(checks: &Checks<'_>) -> Result<String> {
    let cargo = checks.project.cargo("test").args(["-p", "xtask", "--test", "surface", "--", "--ignored"]);
    checks.pass([cargo])
}

fn tests(
    checks: &Checks<'_>,
    features: Features<'_>,
    profile: &[&str],
    filter: &[String],
    cases: &str,
) -> Result<String> {
    let cargo = || checks.project.cargo_all("test", features).args(profile).env("PROPTEST_CASES", cases);
    programs(checks, cargo, &checks.project.workspace.packages, filter)
}

/// Builds the test programs of the packages at once, then runs two at a time.
pub(super) fn programs<'c>(
    checks: &Checks<'_>,
    cargo: impl Fn() -> Cmd<'c>,
    packages: &[Package],
    filter: &[String],
) -> Result<String> {
    cargo().args(TESTS).arg("--no-run").run()?;
    let named = packages.iter().flat_map(|package| package.targets_of("test")).map(|test| &*test.name);
    let runs = named.map(|name| quiet(cargo().args(["--test", name])).args(filter));
    let units = ["--lib", "--bins"].map(|kind| quiet(cargo().arg(kind)).args(filter));
    Ok(counted(checks.run_in_pairs(runs.chain(units))?, "program"))
}

/// All test programs are run, whichever fails; what passes is a dot.
pub(super) fn quiet(cargo: Cmd<'_>) -> Cmd<'_> {
    cargo.args(["--no-fail-fast", "--", "--quiet"])
}
