//! The tests: unit and integration tests, documentation, release mode.

use anyhow::Result;
use xshell::Cmd;

use crate::metadata::Package;
use crate::project::{Features, Project};
use crate::test::Checks;

pub(super) fn test(checks: &Checks<'_>) -> Result<String> {
    let slow = checks.project.workspace.facade()?.listed("slow-tests").unwrap_or_default();
    let sets = checks.project.feature_sets()?;
    let count = checks.run_all(sets.into_iter().map(|features| {
        // `--tests` leaves out examples, benchmarks and documentation: steps of their own.
        let cargo = quiet(checks.project.cargo_all("test", features).arg("--tests"));
        cargo.args(skip_args(features, &slow))
    }))?;
    Ok(format!("{count} sets of features"))
}

/// Tests that the facade lists under `[package.metadata.toma] slow-tests`, by parts of their names,
/// run with no feature and with all of them only: what they test is the same with each alone.
fn skip_args<'a>(features: Features<'_>, slow: &'a [String]) -> Vec<&'a str> {
    match features {
        Features::One(_) => slow.iter().flat_map(|name| ["--skip", name]).collect(),
        Features::None | Features::All => Vec::new(),
    }
}

pub(super) fn doc(checks: &Checks<'_>) -> Result<String> {
    let cargo = checks.project.cargo_all("test", Features::All).arg("--doc");
    checks.run_all([quiet(cargo)])?;
    Ok(String::new())
}

/// The tests each package lists under `[package.metadata.toma] release-tests`: `lib` for its unit
/// tests, and names of integration tests.
pub(super) fn release(checks: &Checks<'_>) -> Result<String> {
    let listed = checks.project.workspace.packages.iter().filter_map(|package| {
        let tests = package.listed("release-tests").filter(|tests| !tests.is_empty())?;
        Some(release_tests(checks.project, package, &tests))
    });
    match checks.run_all(listed)? {
        0 => Ok("no tests listed".to_owned()),
        _ => Ok(String::new()),
    }
}

fn release_tests<'a>(project: &'a Project, package: &Package, tests: &[String]) -> Cmd<'a> {
    let cargo = project.cargo_for("test", &[package], Features::All).arg("--release");
    let cargo = tests.iter().fold(cargo, |cargo, test| match test.as_str() {
        "lib" => cargo.arg("--lib"),
        name => cargo.args(["--test", name]),
    });
    quiet(cargo)
}

/// All test programs are run, whichever fails; what passes is a dot.
pub(super) fn quiet(cargo: Cmd<'_>) -> Cmd<'_> {
    cargo.args(["--no-fail-fast", "--", "--quiet"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_tests_are_skipped_for_single_features_only() {
        let slow = ["properties::".to_owned(), "mistakes".to_owned()];
        assert_eq!(skip_args(Features::One("x"), &slow), ["--skip", "properties::", "--skip", "mistakes"]);
        for features in [Features::None, Features::All] {
            assert_eq!(skip_args(features, &slow), [""; 0]);
        }
    }
}
