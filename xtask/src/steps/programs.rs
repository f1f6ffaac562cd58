//! Programs that are run as they are: examples and benchmarks.

use anyhow::Result;
use xshell::Cmd;

use crate::examples::Example;
use crate::metadata::Target;
use crate::project::Features;
use crate::steps::counted;
use crate::test::Checks;

pub(super) fn examples(checks: &Checks<'_>) -> Result<String> {
    run_examples(checks, false)
}

/// Runs every example that needs libtorch, or every one that does not, with the arguments it has
/// for tests.
pub(super) fn run_examples(checks: &Checks<'_>, needs_libtorch: bool) -> Result<String> {
    let examples = Example::all(&checks.project.workspace)?;
    let chosen = examples.iter().filter(|example| example.needs_libtorch == needs_libtorch);
    let runs = chosen.map(|example| {
        let run = example.cargo(checks.project.cargo("run"));
        let run = run.arg("--").args(&example.settings.test);
        Ok(run.envs(checks.provision.variables(example)?))
    });
    Ok(counted(checks.run_all(runs.collect::<Result<Vec<_>>>()?)?, "example"))
}

/// With all features, as the tests in release mode are built just before: a set of features for each
/// benchmark would be a build of its own. Lints look at every benchmark in every set.
pub(super) fn benches(checks: &Checks<'_>) -> Result<String> {
    let project = checks.project;
    let ordinary = project.workspace.packages.iter().flat_map(|package| package.targets_of("bench"));
    let runs =
        ordinary.map(|bench| run_once(project.cargo_all("test", Features::All).arg("--release"), bench));
    Ok(counted(checks.run_all(runs)?, "benchmark"))
}

/// `cargo test`, because `cargo bench` adds `--bench`, which asks for measurements.
pub(super) fn run_once<'a>(cargo_test: Cmd<'a>, bench: &Target) -> Cmd<'a> {
    cargo_test.args(["--bench", &bench.name]).args(bench.feature_args()).args(["--", "--test"])
}
