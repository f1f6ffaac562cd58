//! Tests of the packages that need no libtorch: unit and integration tests, documentation.

use anyhow::Result;
use xshell::Cmd;

use super::{Checks, counted};
use crate::metadata::Package;
use crate::project::Features;

/// Options of cargo in the nightly steps that optimize.
pub(super) const OPTIMIZED: [&str; 2] = ["--profile", "checked"];

/// Number of cases by day of each property that sets no number.
const CASES: &str = "64";
/// Number of cases in the nightly step `optimized`.
const NIGHT_CASES: &str = "4000";

/// Runs all tests. With `--fast` it skips the tests that the root package lists as `slow-tests`, by parts of their
/// names, and the integration tests of unchanged packages.
pub(super) fn all(checks: &Checks<'_>) -> Result<String> {
    if !checks.fast {
        return tests(checks, &[], CASES);
    }
    let workspace = &checks.project.workspace;
    let changed = checks.project.changed(&workspace.packages)?;
    let slow = workspace.packages.iter().flat_map(|package| &package.settings().slow_tests);
    let filter: Vec<_> = slow.flat_map(|name| ["--skip".to_owned(), name.clone()]).collect();
    let cargo = || checks.project.cargo_all("test", Features::All).env("PROPTEST_CASES", CASES);
    programs(checks, cargo, &changed, &filter)
}

/// Runs the tests with no feature, except integration tests of packages that have no features themselves.
pub(super) fn bare(checks: &Checks<'_>) -> Result<String> {
    let workspace = &checks.project.workspace;
    let packages: Vec<_> =
        workspace.packages.iter().filter(|package| package.features().next().is_some()).collect();
    let cargo = || checks.project.cargo_all("test", Features::None).env("PROPTEST_CASES", CASES);
    programs(checks, cargo, &packages, &[])
}

pub(super) fn optimized(checks: &Checks<'_>) -> Result<String> {
    tests(checks, &OPTIMIZED, NIGHT_CASES)
}

pub(super) fn doc(checks: &Checks<'_>) -> Result<String> {
    let cargo = checks.project.cargo_all("test", Features::All).arg("--doc");
    checks.pass([quiet(cargo)])
}

/// Checks the wrong programs under `tests/ui`, each compiled by itself.
pub(super) fn compile_fail(checks: &Checks<'_>) -> Result<String> {
    let cargo = checks.project.cargo_all("test", Features::All).args(["--test", "macros", "mistakes::"]);
    checks.pass([cargo.args(["--", "--ignored"])])
}

/// Compares the public items of each package with `tests/surface`.
pub(super) fn surface(checks: &Checks<'_>) -> Result<String> {
    let cargo = checks.project.cargo("test").args(["-p", "xtask", "--test", "surface"]);
    checks.pass([cargo.args(["--", "--ignored", "--nocapture"])])
}

fn tests(checks: &Checks<'_>, profile: &[&str], cases: &str) -> Result<String> {
    let cargo = || checks.project.cargo_all("test", Features::All).args(profile).env("PROPTEST_CASES", cases);
    programs(checks, cargo, &checks.project.workspace.packages.iter().collect::<Vec<_>>(), &[])
}

/// Builds unit tests, and the integration tests of these packages, together, then runs them two at a time. Examples,
/// benchmarks and documentation are steps of their own.
pub(super) fn programs<'c>(
    checks: &Checks<'_>,
    cargo: impl Fn() -> Cmd<'c>,
    packages: &[&Package],
    filter: &[String],
) -> Result<String> {
    let tests = packages.iter().flat_map(|package| package.targets_of("test"));
    let names: Vec<_> = tests.map(|test| &*test.name).collect();
    let all = names.iter().flat_map(|name| ["--test", name]);
    cargo().args(["--lib", "--bins", "--no-run"]).args(all).run()?;
    let runs = names.iter().map(|name| quiet(cargo().args(["--test", name])).args(filter));
    let units = ["--lib", "--bins"].map(|kind| quiet(cargo().arg(kind)).args(filter));
    Ok(counted(checks.run_in_pairs(runs.chain(units))?.len(), "program"))
}

/// Runs all test programs even after a failure, and prints a dot for each test that passes.
pub(super) fn quiet(cargo: Cmd<'_>) -> Cmd<'_> {
    cargo.args(["--no-fail-fast", "--", "--quiet"])
}
