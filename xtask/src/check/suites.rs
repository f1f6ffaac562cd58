//! The tests: unit and integration tests, documentation, optimized ones.

use anyhow::Result;
use xshell::Cmd;

use super::Checks;
use crate::metadata::{Package, Settings};
use crate::project::Features;

/// With `--fast` without the tests that the facade lists as `slow-tests`, by parts of their names.
pub(super) fn all(checks: &Checks<'_>) -> Result<String> {
    let filter = if checks.fast { skipping_slow(checks) } else { Vec::new() };
    tests(checks, Features::All, &targets(checks, |_| true), &filter, CASES)
}

/// The same with more cases.
pub(super) fn cases(checks: &Checks<'_>) -> Result<String> {
    tests(checks, Features::All, &targets(checks, |_| true), &[], MOST_CASES)
}

/// How many cases a property is tried with where the test does not say.
const CASES: &str = "64";
/// Optimized, and of slow tests at night: proptest's own default.
const MANY_CASES: &str = "256";
/// In the step `cases`.
const MOST_CASES: &str = "1024";

/// Without the slow tests: with all features the same engine runs with more around it. What runs optimized with all
/// features is the same program here where its package has none.
pub(super) fn bare(checks: &Checks<'_>) -> Result<String> {
    let targets = targets(checks, |package| package.features().next().is_none());
    tests(checks, Features::None, &targets, &skipping_slow(checks), CASES)
}

/// Those that [`bare`] leaves out.
pub(super) fn bare_slow(checks: &Checks<'_>) -> Result<String> {
    tests(checks, Features::None, EVERY, &slow(checks), MANY_CASES)
}

/// Every test but those that run optimized alone, in packages of which this is said.
fn targets<'a>(checks: &Checks<'a>, leaves_out: fn(&Package) -> bool) -> Vec<&'a str> {
    let names = checks.project.workspace.packages.iter().flat_map(|package| {
        let later = &package.settings().only_optimized_tests;
        let is_left_out = leaves_out(package);
        package.targets_of("test").filter(move |test| !(is_left_out && later.contains(&test.name)))
    });
    ["--lib", "--bins"].into_iter().chain(names.flat_map(|test| ["--test", &*test.name])).collect()
}

/// This leaves out examples, benchmarks and documentation, which are steps of their own.
const EVERY: &[&str] = &["--tests"];

fn tests(
    checks: &Checks<'_>,
    features: Features<'_>,
    targets: &[&str],
    filter: &[String],
    cases: &str,
) -> Result<String> {
    let cargo = checks.project.cargo_all("test", features).args(targets).env("PROPTEST_CASES", cases);
    checks.pass([quiet(cargo).args(filter)])
}

fn skipping_slow(checks: &Checks<'_>) -> Vec<String> {
    slow(checks).into_iter().flat_map(|name| ["--skip".to_owned(), name]).collect()
}

fn slow(checks: &Checks<'_>) -> Vec<String> {
    checks.project.workspace.listed(|settings| &settings.slow_tests)
}

pub(super) fn doc(checks: &Checks<'_>) -> Result<String> {
    let cargo = checks.project.cargo_all("test", Features::All).arg("--doc");
    checks.pass([quiet(cargo)])
}

/// The integration tests that packages list as `only-optimized-tests`.
pub(super) fn optimized(checks: &Checks<'_>) -> Result<String> {
    those(checks, |settings| &settings.only_optimized_tests)
}

/// The integration tests that packages list as `optimized-tests`.
pub(super) fn optimized_too(checks: &Checks<'_>) -> Result<String> {
    those(checks, |settings| &settings.optimized_tests)
}

fn those(checks: &Checks<'_>, listed: fn(&Settings) -> &Vec<String>) -> Result<String> {
    let names = checks.project.workspace.listed(listed);
    let targets: Vec<_> =
        OPTIMIZED.into_iter().chain(names.iter().flat_map(|name| ["--test", name])).collect();
    tests(checks, Features::All, &targets, &[], MANY_CASES)
}

/// The options that make cargo build as the checks do where they optimize.
pub(super) const OPTIMIZED: [&str; 2] = ["--profile", "checked"];

/// All test programs are run, whichever fails; what passes is a dot.
pub(super) fn quiet(cargo: Cmd<'_>) -> Cmd<'_> {
    cargo.args(["--no-fail-fast", "--", "--quiet"])
}
